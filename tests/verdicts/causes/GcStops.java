import java.util.ArrayList;
import java.util.List;

/** One thread allocates, and much stays alive: collections stop the others, which compute. */
public class GcStops {
    static final List<Object[]> live = new ArrayList<>();

    static volatile long sum;

    static void allocate() {
        Object[] ring = new Object[20_000];
        for (int i = 0;; i++)
            ring[i % ring.length] = new Object[50];
    }

    static void compute() {
        for (long i = 0;; i++)
            sum += i;
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 300_000; i++)
            live.add(new Object[] {new Object[10], new Object[10]});
        List<Thread> workers = new ArrayList<>();
        workers.add(new Thread(GcStops::allocate, "worker-0"));
        for (int i = 1; i < 3; i++)
            workers.add(new Thread(GcStops::compute, "worker-" + i));
        for (Thread worker : workers)
            worker.start();
        System.out.println("{}");
        System.out.flush();
        for (Thread worker : workers)
            worker.join();
    }
}
