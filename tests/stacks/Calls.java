import java.io.FileInputStream;

/** Reads a file, some calls deep, in threads of its own. */
public class Calls extends Thread {
    static int read(FileInputStream file, byte[] bytes, int depth) throws Exception {
        return depth > 0 ? read(file, bytes, depth - 1) + 1 : file.read(bytes);
    }

    @Override
    public void run() {
        byte[] bytes = new byte[16];
        try (FileInputStream file = new FileInputStream("/dev/zero")) {
            for (int n = 0; ; n++) {
                read(file, bytes, n % 7);
                if (n % 100 == 0) {
                    Thread.sleep(5);
                }
            }
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    public static void main(String[] arguments) {
        for (int n = 0; n < 2; n++) {
            new Calls().start();
        }
    }
}
