// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.Logger;
import org.opensearch.core.xcontent.NamedXContentRegistry;
import org.opensearch.search.builder.SearchSourceBuilder;

/** Calls {@code POST /v1/rewrite} in threads of its own. */
final class RewriteClient {
    private static final Logger logger = LogManager.getLogger(RewriteClient.class);

    /** Runs tasks later. */
    interface Scheduler {
        /**
         * Runs a task after a delay.
         *
         * @param delayMillis the delay in milliseconds
         * @param task        the task, which must not block its thread
         * @return a function that cancels the task if it has not started yet
         * @throws RuntimeException if the node is shutting down
         */
        Runnable schedule(long delayMillis, Runnable task);
    }

    private final Executor executor;
    private final Scheduler scheduler;
    private final NamedXContentRegistry registry;
    private final Set<Exchange> running = ConcurrentHashMap.newKeySet();
    private volatile boolean isClosed;

    /**
     * @param executor  runs the calls, each of which blocks a thread
     * @param scheduler ends calls that take too long
     * @param registry  the parsers for query clauses of this node
     */
    RewriteClient(Executor executor, Scheduler scheduler, NamedXContentRegistry registry) {
        this.executor = executor;
        this.scheduler = scheduler;
        this.registry = registry;
    }

    /**
     * Sends a search body to the first endpoint that answers.
     *
     * <p>Endpoints with an open circuit breaker are left out. The other endpoints are tried in order. For each attempt, the time limit is the
     * remaining time divided by the number of endpoints that have not been tried yet.
     *
     * <p>A search with less patience than the service's timeout ends its own waiting, but not the call. So it does not count as a failure of the
     * service.
     *
     * @param service        the endpoints, the timeout and the API key
     * @param body           the JSON body of the request
     * @param patienceMillis the longest time that this search can wait
     * @return a future that completes within the service's timeout and {@code patienceMillis}: with the rewritten search body, with nothing if the
     *         service left the search body unchanged, or with a {@link RewriteException}
     */
    CompletableFuture<Optional<SearchSourceBuilder>> rewrite(Service service, byte[] body, long patienceMillis) {
        CompletableFuture<Optional<SearchSourceBuilder>> answer = rewrite(service, body);
        if (patienceMillis >= service.timeoutMillis() || answer.isDone()) {
            return answer;
        }
        CompletableFuture<Optional<SearchSourceBuilder>> impatient = answer.copy();
        Runnable cancelTimeout = scheduler.schedule(patienceMillis, () -> {
            impatient.completeExceptionally(new RewriteException(Failure.TIMEOUT, "a search could only wait " + patienceMillis + " ms"));
        });
        impatient.whenComplete((ignored, error) -> cancelTimeout.run());
        return impatient;
    }

    private CompletableFuture<Optional<SearchSourceBuilder>> rewrite(Service service, byte[] body) {
        List<Endpoint> closed = service.endpoints().stream().filter(endpoint -> endpoint.breaker().isOpen() == false).toList();
        service.endpoints().stream().filter(endpoint -> endpoint.breaker().claimTrial()).forEach(endpoint -> {
            call(service, endpoint, body, service.timeoutMillis(), endpoint.breaker()::endTrial);
        });
        if (closed.isEmpty()) {
            return CompletableFuture.failedFuture(new RewriteException(Failure.BREAKER_OPEN, "the service did not answer earlier searches"));
        }
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(service.timeoutMillis());
        return attempt(service, closed, body, deadline);
    }

    /** Calls the first endpoint. If it fails as a whole, not just for this request, and time remains, tries the next endpoint. */
    private CompletableFuture<Optional<SearchSourceBuilder>> attempt(Service service, List<Endpoint> endpoints, byte[] body, long deadline) {
        long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
        CompletableFuture<Optional<SearchSourceBuilder>> first = call(service, endpoints.get(0), body, Math.max(left / endpoints.size(), 1), () -> {});
        List<Endpoint> others = endpoints.subList(1, endpoints.size());
        return others.isEmpty() ? first : first.exceptionallyCompose(error -> {
            boolean isLost = failureOf(error).failure.concernsService == false || deadline - System.nanoTime() <= 0;
            return isLost ? CompletableFuture.failedFuture(error) : attempt(service, others, body, deadline);
        });
    }

    /** Ends all calls, because the node is shutting down and stops the timers that would end them. */
    void close() {
        isClosed = true;
        running.forEach(Exchange::end);
    }

    /**
     * Creates an endpoint with a closed breaker.
     *
     * @param url the base URL of the service
     * @throws IllegalArgumentException if {@code url} is malformed
     */
    Endpoint endpoint(String url) {
        return new Endpoint(url, new Breaker(System::nanoTime), new Connections(Endpoint.uri(url), scheduler, System::nanoTime));
    }

    /**
     * Calls one endpoint, and records the result in its circuit breaker.
     *
     * @param atEnd runs when the call does not use its thread any more, which can be after the timeout
     */
    private CompletableFuture<Optional<SearchSourceBuilder>> call(
        Service service,
        Endpoint endpoint,
        byte[] body,
        long timeoutMillis,
        Runnable atEnd
    ) {
        CompletableFuture<Optional<SearchSourceBuilder>> answer = new CompletableFuture<>();
        answer.whenComplete((ignored, error) -> record(endpoint, error));
        try {
            Exchange exchange = new Exchange(endpoint.connections(), endpoint.url());
            // The call cannot measure this time itself, because it may have to wait for a thread.
            Runnable cancelTimeout = scheduler.schedule(timeoutMillis, () -> {
                exchange.end();
                answer.completeExceptionally(new RewriteException(Failure.TIMEOUT, endpoint.url() + " did not answer in " + timeoutMillis + " ms"));
            });
            answer.whenComplete((ignored, error) -> cancelTimeout.run());
            executor.execute(() -> {
                running.add(exchange);
                try {
                    if (isClosed) {
                        exchange.end();
                    }
                    if (answer.isDone() == false) {
                        answer.complete(read(endpoint, exchange.post(service.key().get(), body, timeoutMillis)));
                    }
                } catch (RuntimeException e) {
                    answer.completeExceptionally(failureOf(e));
                } catch (Error e) {
                    answer.completeExceptionally(failureOf(e));
                    throw e; // OpenSearch logs errors, and stops the node after some of them
                } finally {
                    running.remove(exchange);
                    atEnd.run();
                }
            });
        } catch (RuntimeException e) { // the node is shutting down
            atEnd.run();
            answer.completeExceptionally(failureOf(e));
        }
        return answer;
    }

    /** Returns the content of an answer: the rewritten search body, or nothing if it is unchanged. */
    private Optional<SearchSourceBuilder> read(Endpoint endpoint, byte[] json) {
        try {
            return Answer.read(json, registry);
        } catch (RewriteException e) {
            throw e;
        } catch (IOException | RuntimeException | StackOverflowError e) {
            throw new RewriteException(Failure.UNREADABLE, "the answer of " + endpoint.url() + ": " + e);
        }
    }

    private static void record(Endpoint endpoint, Throwable error) {
        if (error == null || failureOf(error).failure.concernsService == false) {
            if (endpoint.breaker().succeeded()) {
                logger.info("{} answers again: searches in sessions are rewritten", endpoint.url());
            }
        } else if (endpoint.breaker().failed()) {
            logger.warn("Searches in sessions do not wait for {} until it answers again: {}", endpoint.url(), error.getMessage());
        }
    }

    /** Converts an exception of a call to a {@link RewriteException}. All unknown exceptions are failures of the connection. */
    static RewriteException failureOf(Throwable error) {
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        if (cause instanceof RewriteException known) {
            return known;
        }
        return new RewriteException(Failure.UNREACHABLE, cause.toString());
    }
}
