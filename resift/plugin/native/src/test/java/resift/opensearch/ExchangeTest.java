// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ExchangeTest {
    private static final byte[] ANSWER = "{\"body\": {}}".getBytes(StandardCharsets.UTF_8);

    private final List<String> received = Collections.synchronizedList(new ArrayList<>());
    private final List<InetSocketAddress> clients = Collections.synchronizedList(new ArrayList<>());
    private HttpServer server;

    @BeforeEach
    void start() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            received.add(exchange.getRequestMethod() + " " + exchange.getRequestHeaders().getFirst("Authorization") + " " + body);
            clients.add(exchange.getRemoteAddress());
            exchange.sendResponseHeaders(200, ANSWER.length);
            exchange.getResponseBody().write(ANSWER);
            exchange.close();
        });
        server.createContext("/moved", exchange -> {
            exchange.getResponseHeaders().add("Location", "/");
            end(exchange, 307, 0);
        });
        server.createContext("/forbidden", exchange -> end(exchange, 403, 20));
        server.createContext("/longest", exchange -> end(exchange, 200, Exchange.MAX_BYTES));
        server.createContext("/longer", exchange -> end(exchange, 200, Exchange.MAX_BYTES + 1));
        server.start();
    }

    @AfterEach
    void stop() {
        server.stop(0);
    }

    @Test
    void sendsTheBodyAndTheKey() {
        assertArrayEquals(ANSWER, post("/", "k"));
        assertArrayEquals(ANSWER, post("/", null));
        assertEquals(List.of("POST Bearer k {}", "POST null {}"), received);
    }

    @Test
    void usesAConnectionAgain() {
        for (int i = 0; i < 5; i++) {
            post("/", null);
        }
        assertEquals(1, new HashSet<>(clients).size());
    }

    @Test
    void sendsTheRequestAgainIfTheServiceHasClosedTheConnection() throws Exception {
        try (ServerSocket listener = new ServerSocket(0, 0, InetAddress.getLoopbackAddress())) {
            Thread service = new Thread(() -> {
                for (int i = 0; i < 2; i++) {
                    try (Socket connection = listener.accept()) {
                        connection.getInputStream().read(new byte[8192]);
                        OutputStream out = connection.getOutputStream();
                        out.write(("HTTP/1.1 200 OK\r\nContent-Length: " + ANSWER.length + "\r\n\r\n").getBytes(StandardCharsets.UTF_8));
                        out.write(ANSWER);
                    } catch (IOException e) {
                        received.add(e.toString());
                    }
                }
            });
            service.start();
            URI uri = URI.create("http://127.0.0.1:" + listener.getLocalPort() + "/");
            for (int i = 0; i < 2; i++) {
                assertArrayEquals(ANSWER, Exchange.post(uri, null, new byte[] { '{', '}' }, 60_000, () -> false));
            }
            service.join();
            assertEquals(List.of(), received);
        }
    }

    @Test
    void doesNotFollowRedirects() {
        assertEquals(Failure.REJECTED, failure("/moved"));
        assertEquals(List.of(), received);
    }

    @Test
    void namesTheReasonOfAStatus() {
        assertEquals(Failure.UNAUTHORIZED, failure("/forbidden"));
    }

    @Test
    void limitsTheLengthOfTheResponse() {
        assertEquals(Exchange.MAX_BYTES, post("/longest", null).length);
        assertEquals(Failure.UNREADABLE, failure("/longer"));
    }

    @Test
    void doesNotReadOnIfNobodyWaits() {
        assertEquals(Failure.TIMEOUT, assertThrows(RewriteException.class, () -> Exchange.post(uri("/longest"), null, ANSWER, 60_000, () -> true)).failure);
    }

    private static void end(HttpExchange exchange, int status, int length) throws IOException {
        exchange.getRequestBody().readAllBytes();
        exchange.sendResponseHeaders(status, length == 0 ? -1 : length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(new byte[length]);
        } catch (IOException e) {
            // The client did not read everything.
        }
        exchange.close();
    }

    private byte[] post(String path, String key) {
        return Exchange.post(uri(path), key, new byte[] { '{', '}' }, 60_000, () -> false);
    }

    private Failure failure(String path) {
        return assertThrows(RewriteException.class, () -> post(path, null)).failure;
    }

    private URI uri(String path) {
        return URI.create("http://127.0.0.1:" + server.getAddress().getPort() + path);
    }
}
