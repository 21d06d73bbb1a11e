// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.opensearch.action.search.SearchRequest;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.unit.TimeValue;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.action.ActionListener;
import org.opensearch.core.xcontent.NamedXContentRegistry;
import org.opensearch.index.query.MatchAllQueryBuilder;
import org.opensearch.index.query.MatchNoneQueryBuilder;
import org.opensearch.search.SearchModule;
import org.opensearch.search.aggregations.bucket.composite.CompositeAggregationBuilder;
import org.opensearch.search.aggregations.bucket.composite.DateHistogramValuesSourceBuilder;
import org.opensearch.search.aggregations.bucket.histogram.DateHistogramInterval;
import org.opensearch.search.aggregations.pipeline.MaxBucketPipelineAggregationBuilder;
import org.opensearch.search.aggregations.metrics.ValueCountAggregationBuilder;
import org.opensearch.search.builder.PointInTimeBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;
import org.opensearch.search.pipeline.PipelineProcessingContext;

class RewriteProcessorTest {
    /** Blocks the service until it may answer. */
    private interface Wait {
        void call() throws InterruptedException;
    }

    private static final String REWRITTEN = "{\"body\": {\"query\": {\"match_none\": {}}}, \"resift\": {\"rewritten\": true}}";
    private static final NamedXContentRegistry REGISTRY = new NamedXContentRegistry(
        new SearchModule(Settings.EMPTY, List.of()).getNamedXContents()
    );

    private final CompletableFuture<Throwable> uncaught = new CompletableFuture<>();
    private final ExecutorService executor = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setUncaughtExceptionHandler((ignored, error) -> uncaught.complete(error));
        return thread;
    });
    private final ScheduledExecutorService scheduler = Executors.newScheduledThreadPool(1);
    private final ThreadContext threadContext = new ThreadContext(Settings.EMPTY);
    private final List<String> received = Collections.synchronizedList(new ArrayList<>());
    private Wait beforeAnswer = () -> {};
    private volatile String answer = REWRITTEN;
    private TimeValue defaultLimit = TimeValue.MINUS_ONE;
    private HttpServer server;
    private Rewriting rewriting;
    private Endpoint endpoint;
    private RewriteProcessor processor;

    @BeforeEach
    void start() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/v1/rewrite", exchange -> {
            received.add(new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
            try {
                beforeAnswer.call();
            } catch (InterruptedException e) {
                return; // the test is over
            }
            byte[] json = answer.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, json.length);
            exchange.getResponseBody().write(json);
            exchange.close();
        });
        server.start();
        RewriteClient client = new RewriteClient(executor, (delay, task) -> {
            ScheduledFuture<?> timer = scheduler.schedule(task, delay, TimeUnit.MILLISECONDS);
            return () -> timer.cancel(false);
        }, REGISTRY);
        rewriting = new Rewriting(client, threadContext, Path.of("."), () -> null, () -> defaultLimit);
        Service service = rewriting.service(List.of("http://127.0.0.1:" + server.getAddress().getPort()), 60_000, null);
        endpoint = service.endpoints().get(0);
        processor = new RewriteProcessor(null, null, false, rewriting, service);
    }

    @AfterEach
    void stop() {
        server.stop(0);
        executor.shutdownNow();
        scheduler.shutdownNow();
    }

    @Test
    void theSearchContinuesWithTheUserAndTheHeadersOfTheCaller() throws Exception {
        threadContext.putHeader("Authorization", "Basic anna");
        threadContext.putTransient("user", "anna");
        Thread caller = Thread.currentThread();
        CompletableFuture<Thread> continued = new CompletableFuture<>();
        CompletableFuture<String> seen = new CompletableFuture<>();
        CountDownLatch mayAnswer = new CountDownLatch(1);
        beforeAnswer = mayAnswer::await; // an answer that is already there continues the search on the caller's thread
        process(request(Map.of("session", "anna")), ActionListener.wrap(rewritten -> {
            continued.complete(Thread.currentThread());
            seen.complete(threadContext.getHeader("Authorization") + " " + threadContext.getTransient("user"));
        }, seen::completeExceptionally));
        mayAnswer.countDown();
        assertNotSame(caller, continued.get(60, TimeUnit.SECONDS));
        assertEquals("Basic anna anna", seen.get(60, TimeUnit.SECONDS));
    }

    @Test
    void theRewrittenBodyRunsWithoutTheSection() throws Exception {
        SearchRequest request = request(Map.of("session", "anna"));
        assertEquals(new SearchSourceBuilder().query(new MatchNoneQueryBuilder()), await(request).source());
        assertTrue(received.get(0).startsWith("{\"index\":\"a,b\","), received.get(0));
        assertTrue(received.get(0).contains("\"ext\":{\"resift\":{\"session\":\"anna\"}}"), received.get(0));
    }

    @Test
    void theOriginalBodyRunsWithoutTheSectionIfTheServiceIsDown() throws Exception {
        server.stop(0);
        SearchRequest request = request(Map.of("session", "anna"));
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()), await(request).source());
    }

    @Test
    void aSearchWithoutASessionPassesOnTheSameThread() {
        SearchRequest request = new SearchRequest(new String[] { "a" }, new SearchSourceBuilder());
        SearchSourceBuilder source = request.source();
        List<SearchRequest> passed = new ArrayList<>();
        process(request, ActionListener.wrap(passed::add, error -> {}));
        assertSame(request, passed.get(0));
        assertSame(source, passed.get(0).source());
        assertTrue(received.isEmpty());
    }

    @Test
    void aSearchThatNamesNoSessionRunsWithoutTheSection() throws Exception {
        SearchRequest request = request(Map.of("query", "fire"));
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()), await(request).source());
        assertTrue(received.isEmpty());
    }

    @Test
    void aSearchThatOpenSearchWouldCancelWaitsForHalfOfItsTime() throws Exception {
        CountDownLatch mayAnswer = new CountDownLatch(1);
        beforeAnswer = mayAnswer::await;
        SearchRequest own = request(Map.of("session", "anna"));
        own.setCancelAfterTimeInterval(TimeValue.timeValueMillis(20));
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()), await(own).source());
        defaultLimit = TimeValue.timeValueMillis(20); // the limit of the cluster
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()), await(request(Map.of("session", "anna"))).source());
        assertEquals(0, endpoint.breaker().consecutiveFailures());
        assertEquals(2, rewriting.stats().count(Failure.TIMEOUT));
        mayAnswer.countDown();
    }

    @Test
    void aggregationsKeepOptionsThatOpenSearchDoesNotWriteAsJson() throws Exception {
        DateHistogramValuesSourceBuilder days = new DateHistogramValuesSourceBuilder("day").field("date").calendarInterval(DateHistogramInterval.DAY);
        CompositeAggregationBuilder byDay = new CompositeAggregationBuilder("by_day", List.of(days.offset(14_400_000)));
        SearchRequest request = request(Map.of("session", "anna"));
        request.source().aggregation(byDay).aggregation(new MaxBucketPipelineAggregationBuilder("most", "by_day>_count"));
        SearchSourceBuilder rewritten = await(request).source();
        assertEquals(new MatchNoneQueryBuilder(), rewritten.query());
        assertEquals(Set.of(byDay), Set.copyOf(rewritten.aggregations().getAggregatorFactories()));
        assertEquals(1, rewritten.aggregations().getPipelineAggregatorFactories().size());
        assertFalse(received.get(0).contains("by_day"), received.get(0));
    }

    @Test
    void anAnswerWithAnAggregationOfTheOriginalSearchIsNotUsed() throws Exception {
        answer = "{\"body\": {\"aggs\": {\"days\": {\"value_count\": {\"field\": \"day\"}}}}, \"resift\": {\"rewritten\": true}}";
        SearchRequest request = request(Map.of("session", "anna"));
        ValueCountAggregationBuilder days = new ValueCountAggregationBuilder("days").field("day");
        request.source().aggregation(days);
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()).aggregation(days), await(request).source());
        assertEquals(1, rewriting.stats().count(Failure.UNSUPPORTED));
        assertEquals(0, endpoint.breaker().consecutiveFailures());
    }

    @Test
    void aSearchRunsUnchangedIfTheNodeCannotStartTimersAnyMore() throws Exception {
        scheduler.shutdown();
        SearchRequest request = request(Map.of("session", "anna"));
        request.setCancelAfterTimeInterval(TimeValue.timeValueSeconds(60));
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()), await(request).source());
        assertEquals(1, rewriting.stats().count(Failure.UNREACHABLE));
    }

    @Test
    void anUnexpectedExceptionBeforeTheCallDoesNotEndTheSearch() throws Exception {
        defaultLimit = null;
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()), await(request(Map.of("session", "anna"))).source());
        assertEquals(1, rewriting.stats().count(Failure.INTERNAL_ERROR));
    }

    @Test
    void anErrorDuringTheCallEndsTheWaitingAndReachesOpenSearch() throws Exception {
        LinkageError error = new LinkageError("a class is missing");
        Service broken = new Service(List.of(endpoint), 60_000, () -> {
            throw error;
        });
        processor = new RewriteProcessor(null, null, false, rewriting, broken);
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()), await(request(Map.of("session", "anna"))).source());
        assertEquals(1, rewriting.stats().count(Failure.UNREACHABLE));
        assertSame(error, uncaught.get(20, TimeUnit.SECONDS));
    }

    @Test
    void aMalformedPointInTimeIsNoFailureOfTheService() throws Exception {
        SearchRequest request = request(Map.of("session", "anna"));
        request.source().pointInTimeBuilder(new PointInTimeBuilder("%"));
        assertEquals(new MatchAllQueryBuilder(), await(request).source().query());
        assertTrue(received.isEmpty());
        assertEquals(1, rewriting.stats().count(Failure.REJECTED));
    }

    @Test
    void aBodyThatIsTooLongIsNotSent() throws Exception {
        SearchRequest request = request(Map.of("session", "anna", "query", "x".repeat(RewriteProcessor.MAX_BYTES)));
        assertEquals(new SearchSourceBuilder().query(new MatchAllQueryBuilder()), await(request).source());
        assertTrue(received.isEmpty());
        assertEquals(1, rewriting.stats().count(Failure.REJECTED));
    }

    @Test
    @Timeout(60)
    void theStatisticsOmitAddressesThatNoProcessorUses() throws Exception {
        rewriting.service(List.of("http://unused:1"), 300, null);
        Service used = rewriting.service(List.of("http://used:1"), 300, null);
        Set<String> expected = Set.of(endpoint.url(), "http://used:1");
        while (urls().equals(expected) == false) {
            assertTrue(urls().containsAll(expected));
            System.gc();
            Thread.sleep(10);
        }
        assertSame(used.endpoints().get(0), rewriting.service(List.of("http://used:1"), 300, null).endpoints().get(0));
    }

    private Set<String> urls() {
        return rewriting.endpoints().stream().map(Endpoint::url).collect(Collectors.toSet());
    }

    private void process(SearchRequest request, ActionListener<SearchRequest> listener) {
        processor.processRequestAsync(request, new PipelineProcessingContext(), listener);
    }

    private SearchRequest await(SearchRequest request) throws Exception {
        CompletableFuture<SearchRequest> result = new CompletableFuture<>();
        process(request, ActionListener.wrap(result::complete, result::completeExceptionally));
        return result.get(20, TimeUnit.SECONDS);
    }

    private static SearchRequest request(Map<String, Object> options) {
        SearchSourceBuilder source = new SearchSourceBuilder().query(new MatchAllQueryBuilder()).ext(List.of(new ResiftExt(options)));
        return new SearchRequest(new String[] { "a", "b" }, source);
    }
}
