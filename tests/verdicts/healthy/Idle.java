import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** A pool of threads with a little to do ten times a second. */
final class Idle {
    public static void main(String[] arguments) {
        ScheduledExecutorService pool = Executors.newScheduledThreadPool(4);
        pool.scheduleAtFixedRate(System::nanoTime, 0, 100, TimeUnit.MILLISECONDS);
        System.out.println("{}");
    }
}
