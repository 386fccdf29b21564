/** A Java program that makes garbage, half of the time. */
public class JavaGarbage {
    static Object kept;

    public static void main(String[] arguments) throws Exception {
        System.out.println("{}");
        System.out.flush();
        while (true) {
            long end = System.nanoTime() + 5_000_000;
            while (System.nanoTime() < end) {
                for (int i = 0; i < 100; i++)
                    kept = new byte[1000];
            }
            Thread.sleep(5);
        }
    }
}
