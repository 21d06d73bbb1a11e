// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLSocketFactory;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class ExchangeTest {
    private static final byte[] ANSWER = "{\"body\": {}}".getBytes(StandardCharsets.UTF_8);
    private static final String OK = "HTTP/1.1 200 OK\r\n";
    private static final int TIMEOUT_MILLIS = 60_000;

    private final List<String> received = Collections.synchronizedList(new ArrayList<>());
    private final List<InetSocketAddress> clients = Collections.synchronizedList(new ArrayList<>());
    private final List<Runnable> timers = new ArrayList<>();
    private final AtomicLong clock = new AtomicLong();
    private final SSLSocketFactory defaultFactory = HttpsURLConnection.getDefaultSSLSocketFactory();
    private HttpServer server;
    private Connections connections;

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
        server.createContext("/longest", exchange -> end(exchange, 200, Connection.MAX_BYTES));
        server.createContext("/longer", exchange -> end(exchange, 200, Connection.MAX_BYTES + 1));
        server.start();
        connections = connections("http://127.0.0.1:" + server.getAddress().getPort() + "/");
    }

    @AfterEach
    void stop() {
        server.stop(0);
        HttpsURLConnection.setDefaultSSLSocketFactory(defaultFactory);
    }

    @Test
    void sendsTheBodyAndTheKey() {
        assertArrayEquals(ANSWER, post(connections, "k"));
        assertArrayEquals(ANSWER, post(connections, null));
        assertEquals(List.of("POST Bearer k {}", "POST null {}"), received);
    }

    @Test
    void sendsOnlyTheseHeaders() throws Exception {
        CompletableFuture<String> request = new CompletableFuture<>();
        try (RawServer raw = new RawServer(false, socket -> {
            byte[] buffer = new byte[8192];
            request.complete(new String(buffer, 0, socket.getInputStream().read(buffer), StandardCharsets.UTF_8));
            write(socket, OK + "Set-Cookie: a=b\r\nContent-Length: 2\r\n\r\n{}");
        })) {
            post(connections(raw.url() + "v1/é"), "k");
            String authority = URI.create(raw.url()).getAuthority();
            assertEquals(
                String.join(
                    "\r\n",
                    "POST /v1/%C3%A9 HTTP/1.1",
                    "Host: " + authority,
                    "User-Agent: resift-opensearch",
                    "Accept: application/json",
                    "Content-Type: application/json",
                    "Authorization: Bearer k",
                    "Content-Length: 2",
                    "",
                    "{}"
                ),
                request.get(20, TimeUnit.SECONDS)
            );
        }
    }

    @Test
    void doesNotSendAKeyWithALineBreak() {
        assertEquals(Failure.UNAUTHORIZED, assertThrows(RewriteException.class, () -> post(connections, "k\r\nX: y")).failure);
        assertEquals(List.of(), received);
    }

    @Test
    void usesAConnectionAgain() {
        for (int i = 0; i < 5; i++) {
            post(connections, null);
        }
        assertEquals(1, new HashSet<>(clients).size());
    }

    @Test
    void usesAllConnectionsOfConcurrentCallsAgain() throws Exception {
        int count = 20;
        for (int round = 0; round < 2; round++) {
            List<Connection> taken = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                Connection idle = connections.take();
                assertEquals(round == 0, idle == null);
                Connection connection = round == 0 ? connections.create() : idle;
                if (round == 0) {
                    connection.open(TIMEOUT_MILLIS);
                }
                connection.post(null, ANSWER, TIMEOUT_MILLIS);
                taken.add(connection);
            }
            taken.forEach(connections::keep);
        }
        assertEquals(count, new HashSet<>(clients).size());
    }

    @Test
    void closesConnectionsThatAreIdleForTooLong() {
        post(connections, null);
        assertEquals(1, timers.size());
        clock.addAndGet(TimeUnit.MILLISECONDS.toNanos(Connections.IDLE_MILLIS) - 1);
        timers.get(0).run();
        post(connections, null);
        assertEquals(2, timers.size(), "one timer at a time");
        clock.addAndGet(TimeUnit.MILLISECONDS.toNanos(Connections.IDLE_MILLIS));
        timers.get(1).run();
        assertEquals(2, timers.size(), "no connection is left");
        post(connections, null);
        assertEquals(3, timers.size());
        assertEquals(clients.get(0), clients.get(1));
        assertEquals(2, new HashSet<>(clients).size());
    }

    @ParameterizedTest
    @ValueSource(booleans = { false, true })
    void sendsTheRequestAgainIfTheServiceHasClosedTheConnection(boolean isSecure) throws Exception {
        HttpsURLConnection.setDefaultSSLSocketFactory(RawServer.clients());
        try (RawServer closing = new RawServer(isSecure, socket -> {
            socket.getInputStream().read(new byte[8192]);
            write(socket, OK + "Content-Length: 2\r\n\r\n{}");
            socket.close();
        })) {
            Connections pool = connections(closing.url());
            for (int i = 0; i < 3; i++) {
                assertEquals("{}", new String(post(pool, null), StandardCharsets.UTF_8));
            }
        }
    }

    @Test
    void doesNotTakeSurplusDataForTheNextResponse() throws Exception {
        try (RawServer raw = new RawServer(false, socket -> {
            while (socket.getInputStream().read(new byte[8192]) >= 0) {
                write(socket, OK + "Content-Length: 2\r\n\r\n{}" + OK + "Content-Length: 3\r\n\r\nbad");
            }
        })) {
            Connections pool = connections(raw.url());
            for (int i = 0; i < 3; i++) {
                assertEquals("{}", new String(post(pool, null), StandardCharsets.UTF_8));
            }
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
        assertEquals(Connection.MAX_BYTES, post(of("/longest"), null).length);
        assertEquals(Failure.UNREADABLE, failure("/longer"));
        String tooLong = "x".repeat(Connection.MAX_BYTES + 1);
        assertEquals(Failure.UNREADABLE, failureOf(OK + "Transfer-Encoding: chunked\r\n\r\n1000001\r\n" + tooLong));
        assertEquals(Failure.UNREADABLE, failureOf(OK + "Transfer-Encoding: chunked\r\n\r\nffffffffffff\r\n" + tooLong));
        assertEquals(Failure.UNREADABLE, failureOf(OK + "\r\n" + tooLong));
        assertEquals(Failure.UNREADABLE, failureOf(OK + "X: " + "x".repeat(100_000)));
        assertEquals(Failure.UNREADABLE, failureOf("HTTP/1.1 100 Continue\r\n\r\n".repeat(5_000)));
    }

    @ParameterizedTest
    @ValueSource(
        strings = {
            "HTTP/1.1 200\r\nCONTENT-LENGTH:  2 \r\nX: y\r\n\r\n{}",
            "HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\n{\r\n0001;x=y\r\n}\r\n0\r\nTrailer: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{}",
            "HTTP/1.0 200 OK\r\n\r\n{}",
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}surplus" }
    )
    void readsAllFormsOfResponses(String response) throws Exception {
        try (RawServer raw = answering(response)) {
            Connections pool = connections(raw.url());
            for (int i = 0; i < 2; i++) {
                assertEquals("{}", new String(post(pool, null), StandardCharsets.UTF_8));
            }
        }
    }

    @ParameterizedTest
    @CsvSource(
        {
            "UNREACHABLE, ''",
            "UNREACHABLE, HTTP/1.1 2",
            "UNREACHABLE, HTTP/1.1 200 OK|",
            "UNREACHABLE, HTTP/1.1 200 OK|Content-Le",
            "UNREACHABLE, HTTP/1.1 200 OK|Content-Length: 3||{}",
            "UNREACHABLE, HTTP/1.1 200 OK|Transfer-Encoding: chunked||3|{}",
            "UNREADABLE, SSH-2.0|",
            "UNREADABLE, HTTP/2 200||",
            "UNREADABLE, HTTP/1.1 200 OK|Content-Length: -1||",
            "UNREADABLE, HTTP/1.1 200 OK|Content-Length: 2|Content-Length: 3||{}",
            "UNREADABLE, HTTP/1.1 200 OK|Content-Length: 99999999999999999999||",
            "UNREADABLE, HTTP/1.1 200 OK|no colon||",
            "UNREADABLE, HTTP/1.1 200 OK|Transfer-Encoding: gzip||",
            "UNREADABLE, HTTP/1.1 200 OK|Transfer-Encoding: chunked||-1|",
            "UNREADABLE, HTTP/1.1 200 OK|Transfer-Encoding: chunked||1|{}|",
            "REJECTED, HTTP/1.1 101 Switching Protocols||",
            "REJECTED, HTTP/1.1 204 No Content||",
            "SERVICE_ERROR, HTTP/1.1 503 Service Unavailable||" }
    )
    void namesTheReasonOfAUselessResponse(Failure failure, String response) {
        assertEquals(failure, failureOf(response.replace("|", "\r\n")));
    }

    /** The ways in which a service keeps an exchange from ending. */
    enum Endless {
        NO_READING(""),
        NO_RESPONSE(""),
        STATUS("HTTP/1.1 200 "),
        HEADER(OK + "X: "),
        BODY(OK + "Content-Length: 1000000\r\n\r\n"),
        CHUNK_LENGTH(OK + "Transfer-Encoding: chunked\r\n\r\n"),
        CHUNK(OK + "Transfer-Encoding: chunked\r\n\r\nfffff\r\n"),
        REST(OK + "\r\n");

        private final String beginning;

        Endless(String beginning) {
            this.beginning = beginning;
        }

        void answer(Socket socket, CountDownLatch begun) throws IOException, InterruptedException {
            if (this != NO_READING) {
                socket.getInputStream().read(new byte[8192]);
            }
            write(socket, beginning);
            begun.countDown();
            while (true) {
                Thread.sleep(10);
                if (beginning.isEmpty() == false) {
                    write(socket, "0");
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    void canBeEndedAtAnyTime(Endless endless) throws Exception {
        endsWhile(endless, false);
    }

    @ParameterizedTest
    @EnumSource
    void canBeEndedAtAnyTimeWithTls(Endless endless) throws Exception {
        endsWhile(endless, true);
    }

    @Test
    void canBeEndedWhileItConnects() throws Exception {
        List<Socket> waiting = new ArrayList<>();
        try (ServerSocket full = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            try {
                while (true) { // until the system accepts no further connection
                    waiting.add(new Socket());
                    waiting.get(waiting.size() - 1).connect(full.getLocalSocketAddress(), 500);
                }
            } catch (SocketTimeoutException e) {
                CountDownLatch begun = new CountDownLatch(1);
                CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS).execute(begun::countDown);
                ends(connections("http://127.0.0.1:" + full.getLocalPort() + "/"), ANSWER, begun);
            }
        } finally {
            for (Socket socket : waiting) {
                socket.close();
            }
        }
    }

    @Test
    void canBeEndedDuringTheHandshakeOfTls() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        try (RawServer silent = new RawServer(false, socket -> {
            begun.countDown();
            Thread.sleep(Long.MAX_VALUE);
        })) {
            ends(connections(silent.url().replace("http:", "https:")), ANSWER, begun);
        }
    }

    @Test
    void theEndOfAnExchangeKeepsOtherConnections() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        AtomicInteger requests = new AtomicInteger();
        try (RawServer raw = new RawServer(false, socket -> {
            while (socket.getInputStream().read(new byte[8192]) >= 0) {
                if (requests.incrementAndGet() == 3) {
                    begun.countDown();
                } else {
                    write(socket, OK + "Content-Length: 2\r\n\r\n{}");
                }
            }
        })) {
            Connections pool = connections(raw.url());
            Connection first = pool.create();
            Connection second = pool.create();
            for (Connection connection : List.of(first, second)) {
                connection.open(TIMEOUT_MILLIS);
                connection.post(null, ANSWER, TIMEOUT_MILLIS);
                pool.keep(connection);
            }
            ends(pool, ANSWER, begun);
            assertSame(first, pool.take());
            assertNull(pool.take());
        }
    }

    @Test
    void doesNotBeginIfItHasEnded() {
        Exchange exchange = new Exchange(connections, "service");
        exchange.end();
        assertEquals(Failure.TIMEOUT, assertThrows(RewriteException.class, () -> exchange.post(null, ANSWER, TIMEOUT_MILLIS)).failure);
        assertEquals(List.of(), received);
    }

    @Test
    void checksTheCertificate() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        try (RawServer unknown = new RawServer(true, socket -> Endless.BODY.answer(socket, begun))) {
            Connections pool = connections(unknown.url());
            assertEquals(Failure.UNREACHABLE, assertThrows(RewriteException.class, () -> post(pool, null)).failure);
            HttpsURLConnection.setDefaultSSLSocketFactory(RawServer.clients());
            Connections wrongName = connections(unknown.url().replace("localhost", "127.0.0.1"));
            assertEquals(Failure.UNREACHABLE, assertThrows(RewriteException.class, () -> post(wrongName, null)).failure);
        }
    }

    @Test
    void sendsOverTlsAndUsesTheConnectionAgain() throws Exception {
        List<Integer> ports = Collections.synchronizedList(new ArrayList<>());
        HttpsURLConnection.setDefaultSSLSocketFactory(RawServer.clients());
        try (RawServer raw = new RawServer(true, socket -> {
            while (socket.getInputStream().read(new byte[8192]) >= 0) {
                ports.add(socket.getPort());
                write(socket, OK + "Content-Length: 2\r\n\r\n{}");
            }
        })) {
            Connections pool = connections(raw.url());
            for (int i = 0; i < 3; i++) {
                assertEquals("{}", new String(post(pool, null), StandardCharsets.UTF_8));
            }
        }
        assertEquals(1, new HashSet<>(ports).size());
    }

    private void endsWhile(Endless endless, boolean isSecure) throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        // more than the buffers of both sockets hold
        byte[] body = new byte[endless == Endless.NO_READING ? 64 * 1024 * 1024 : 100];
        HttpsURLConnection.setDefaultSSLSocketFactory(RawServer.clients());
        try (RawServer raw = new RawServer(isSecure, socket -> endless.answer(socket, begun))) {
            ends(connections(raw.url()), body, begun);
        }
    }

    /** Checks that another thread can end an exchange, without waiting itself. */
    private static void ends(Connections pool, byte[] body, CountDownLatch begun) throws Exception {
        Exchange exchange = new Exchange(pool, "service");
        CompletableFuture<byte[]> result = CompletableFuture.supplyAsync(() -> exchange.post(null, body, TIMEOUT_MILLIS), task -> new Thread(task).start());
        begun.await();
        CompletableFuture.runAsync(exchange::end).get(20, TimeUnit.SECONDS);
        Throwable error = assertThrows(ExecutionException.class, () -> result.get(20, TimeUnit.SECONDS)).getCause();
        assertEquals(Failure.TIMEOUT, ((RewriteException) error).failure);
    }

    private static RawServer answering(String response) throws Exception {
        return new RawServer(false, socket -> {
            socket.getInputStream().read(new byte[8192]);
            write(socket, response);
            socket.close();
        });
    }

    private Failure failureOf(String response) {
        try (RawServer raw = answering(response)) {
            return assertThrows(RewriteException.class, () -> post(connections(raw.url()), null)).failure;
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    static void write(Socket socket, String text) throws IOException {
        socket.getOutputStream().write(text.getBytes(StandardCharsets.ISO_8859_1));
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

    private static byte[] post(Connections connections, String key) {
        return new Exchange(connections, "service").post(key, new byte[] { '{', '}' }, TIMEOUT_MILLIS);
    }

    private Failure failure(String path) {
        return assertThrows(RewriteException.class, () -> post(of(path), null)).failure;
    }

    private Connections of(String path) {
        return connections("http://127.0.0.1:" + server.getAddress().getPort() + path);
    }

    private Connections connections(String url) {
        return new Connections(URI.create(url), (delay, task) -> {
            timers.add(task);
            return () -> {};
        }, clock::get);
    }
}
