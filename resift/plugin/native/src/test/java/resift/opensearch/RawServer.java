// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/** A server that handles each connection in a thread of its own, with or without TLS. Its certificate is for the name {@code localhost}. */
final class RawServer implements Closeable {
    interface Handler {
        void handle(Socket socket) throws IOException, InterruptedException;
    }

    private static final String PASSWORD = "password";
    private static SSLContext context;

    private final ServerSocket listener;
    private final boolean isSecure;
    private final List<Thread> threads = new CopyOnWriteArrayList<>();
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();

    RawServer(boolean isSecure, Handler handler) throws Exception {
        this.isSecure = isSecure;
        this.listener = isSecure
            ? context().getServerSocketFactory().createServerSocket(0, 50, InetAddress.getLoopbackAddress())
            : new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        start(() -> {
            while (true) {
                Socket socket = listener.accept();
                sockets.add(socket);
                start(() -> handler.handle(socket));
            }
        });
    }

    String url() {
        return (isSecure ? "https" : "http") + "://localhost:" + listener.getLocalPort() + "/";
    }

    @Override
    public void close() throws IOException {
        listener.close();
        threads.forEach(Thread::interrupt);
        for (Socket socket : sockets) {
            socket.close();
        }
    }

    /** Returns a factory of clients that trust the certificate. */
    static SSLSocketFactory clients() throws Exception {
        return context().getSocketFactory();
    }

    private interface Work {
        void run() throws IOException, InterruptedException;
    }

    private void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException | InterruptedException e) {
                // The client or the test is done.
            }
        });
        thread.setDaemon(true);
        threads.add(thread);
        thread.start();
    }

    private static synchronized SSLContext context() throws Exception {
        if (context == null) {
            Path folder = Files.createTempDirectory("resift");
            Path file = folder.resolve("keys.p12");
            String keytool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
            ProcessBuilder command = new ProcessBuilder(keytool, "-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost");
            command.command().addAll(List.of("-ext", "san=dns:localhost", "-keystore", file.toString(), "-storepass", PASSWORD));
            if (command.redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor() != 0) {
                throw new IOException("keytool failed");
            }
            KeyStore keys = KeyStore.getInstance("PKCS12");
            try (InputStream in = Files.newInputStream(file)) {
                keys.load(in, PASSWORD.toCharArray());
            }
            Files.delete(file);
            Files.delete(folder);
            KeyManagerFactory own = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            own.init(keys, PASSWORD.toCharArray());
            TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trusted.init(keys);
            context = SSLContext.getInstance("TLS");
            context.init(own.getKeyManagers(), trusted.getTrustManagers(), null);
        }
        return context;
    }
}
