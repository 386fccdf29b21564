/** "victim" takes a monitor again and again that "owner" holds for 20 ms each time. */
final class Monitor {
    private static final Object LOCK = new Object();

    private static void own() throws InterruptedException {
        while (true) {
            synchronized (LOCK) {
                Thread.sleep(20);
            }
            Thread.sleep(1);
        }
    }

    private static void want() throws InterruptedException {
        while (true) {
            synchronized (LOCK) {
                LOCK.hashCode();
            }
            Thread.sleep(0, 200_000);
        }
    }

    private interface Body {
        void run() throws InterruptedException;
    }

    private static void start(String name, Body body) {
        new Thread(() -> {
            try {
                body.run();
            } catch (InterruptedException end) {
                return;
            }
        }, name).start();
    }

    public static void main(String[] arguments) {
        start("owner", Monitor::own);
        start("victim", Monitor::want);
        System.out.println("{}");
    }
}
