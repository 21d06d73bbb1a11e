// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.opensearch.core.xcontent.NamedXContentRegistry;
import org.opensearch.search.builder.SearchSourceBuilder;

class RewriteClientTest {
    private static final byte[] BODY = { '{', '}' };
    private static final String UNCHANGED = "{\"resift\": {\"rewritten\": false}}";

    private final ScheduledExecutorService timers = Executors.newScheduledThreadPool(1);
    private final ExecutorService oneThread = Executors.newFixedThreadPool(1);
    private final RewriteClient.Scheduler scheduler = (delay, task) -> {
        ScheduledFuture<?> timer = timers.schedule(task, delay, TimeUnit.MILLISECONDS);
        return () -> timer.cancel(false);
    };
    private final RewriteClient client = new RewriteClient(oneThread, scheduler, NamedXContentRegistry.EMPTY);

    @AfterEach
    void stop() {
        oneThread.shutdownNow();
        timers.shutdownNow();
    }

    @Test
    void aThreadIsFreeSoonAfterTheTimeout() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        try (
            RawServer slow = new RawServer(false, socket -> ExchangeTest.Endless.HEADER.answer(socket, begun));
            RawServer good = new RawServer(false, socket -> {
                socket.getInputStream().read(new byte[8192]);
                ExchangeTest.write(socket, "HTTP/1.0 200 OK\r\n\r\n" + UNCHANGED);
                socket.close();
            })
        ) {
            assertEquals(Failure.TIMEOUT, failure(client.rewrite(service(slow.url(), 300), BODY, Long.MAX_VALUE)));
            assertEquals(Optional.empty(), client.rewrite(service(good.url(), 60_000), BODY, Long.MAX_VALUE).get(20, TimeUnit.SECONDS));
        }
    }

    @Test
    void theEndOfTheNodeEndsAllCalls() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        try (RawServer slow = new RawServer(false, socket -> ExchangeTest.Endless.HEADER.answer(socket, begun))) {
            CompletableFuture<Optional<SearchSourceBuilder>> running = client.rewrite(service(slow.url(), 60_000), BODY, Long.MAX_VALUE);
            CompletableFuture<Optional<SearchSourceBuilder>> waiting = client.rewrite(service(slow.url(), 60_000), BODY, Long.MAX_VALUE);
            begun.await();
            client.close();
            assertEquals(Failure.TIMEOUT, failure(running));
            assertEquals(Failure.TIMEOUT, failure(waiting));
        }
    }

    @Test
    void oneTrialCallRunsAtATime() {
        AtomicLong clock = new AtomicLong();
        List<Runnable> calls = new ArrayList<>();
        RewriteClient queueing = new RewriteClient(calls::add, (delay, task) -> () -> {}, NamedXContentRegistry.EMPTY);
        Endpoint endpoint = new Endpoint("http://127.0.0.1:1", new Breaker(clock::get), queueing.endpoint("http://127.0.0.1:1").connections());
        Service service = new Service(List.of(endpoint), 60_000, () -> {
            throw new RewriteException(Failure.UNAUTHORIZED, "no key");
        });
        while (endpoint.breaker().isOpen() == false) {
            endpoint.breaker().failed();
        }
        for (int expected = 1; expected <= 3; expected++) {
            for (int i = 0; i < 3; i++) {
                clock.addAndGet(Breaker.TRIAL_INTERVAL_NANOS);
                assertTrue(queueing.rewrite(service, BODY, Long.MAX_VALUE).isCompletedExceptionally());
                assertEquals(expected, calls.size());
            }
            calls.get(expected - 1).run();
        }
        assertTrue(endpoint.breaker().isOpen());
    }

    @Test
    void aRefusedTrialCallEnds() {
        AtomicLong clock = new AtomicLong();
        RewriteClient stopped = new RewriteClient(oneThread, (delay, task) -> {
            throw new IllegalStateException("the node is shutting down");
        }, NamedXContentRegistry.EMPTY);
        Endpoint endpoint = new Endpoint("http://127.0.0.1:1", new Breaker(clock::get), stopped.endpoint("http://127.0.0.1:1").connections());
        while (endpoint.breaker().isOpen() == false) {
            endpoint.breaker().failed();
        }
        clock.addAndGet(Breaker.TRIAL_INTERVAL_NANOS);
        stopped.rewrite(new Service(List.of(endpoint), 60_000, () -> null), BODY, Long.MAX_VALUE);
        assertFalse(endpoint.breaker().claimTrial());
        clock.addAndGet(Breaker.TRIAL_INTERVAL_NANOS);
        assertTrue(endpoint.breaker().claimTrial());
    }

    private Service service(String url, long timeoutMillis) {
        return new Service(List.of(client.endpoint(url)), timeoutMillis, () -> null);
    }

    private static Failure failure(CompletableFuture<?> answer) {
        Throwable error = assertThrows(ExecutionException.class, () -> answer.get(20, TimeUnit.SECONDS)).getCause();
        return RewriteClient.failureOf(error).failure;
    }
}
