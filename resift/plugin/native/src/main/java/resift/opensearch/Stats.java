// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.io.IOException;
import java.util.EnumMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;

import org.opensearch.core.xcontent.ToXContentFragment;
import org.opensearch.core.xcontent.XContentBuilder;

/** Counts the searches in sessions on this node by their outcome, and logs failures at most once a minute. */
final class Stats implements ToXContentFragment {
    private static final long LOG_INTERVAL_NANOS = TimeUnit.MINUTES.toNanos(1);

    private static final int NAMED_KEYS = 5;
    private static final int MAX_KEY_LENGTH = 40;

    private final LongSupplier nanoTime;
    private final Consumer<String> log;
    private final LongAdder rewritten = new LongAdder();
    private final LongAdder unchanged = new LongAdder();
    private final Map<Failure, LongAdder> failed = new EnumMap<>(Failure.class);
    private final AtomicLong nextLog;
    private final LongAdder failedSinceLog = new LongAdder();
    private final AtomicLong nextSessionLog;

    /**
     * @param nanoTime a clock such as {@link System#nanoTime}
     * @param log      receives the log lines
     */
    Stats(LongSupplier nanoTime, Consumer<String> log) {
        this.nanoTime = nanoTime;
        this.log = log;
        this.nextLog = new AtomicLong(nanoTime.getAsLong());
        this.nextSessionLog = new AtomicLong(nanoTime.getAsLong());
        for (Failure failure : Failure.values()) {
            failed.put(failure, new LongAdder());
        }
    }

    /**
     * Counts a search for which the service answered.
     *
     * @param isRewritten whether the service changed the search body
     */
    void answered(boolean isRewritten) {
        (isRewritten ? rewritten : unchanged).increment();
    }

    /** Counts a search that runs unchanged because of a failure. */
    void failed(RewriteException error) {
        failed.get(error.failure).increment();
        failedSinceLog.increment();
        long now = nanoTime.getAsLong();
        long due = nextLog.get();
        if (now - due >= 0 && nextLog.compareAndSet(due, now + LOG_INTERVAL_NANOS)) {
            long searches = failedSinceLog.sumThenReset();
            log.accept(searches + " search(es) in a session ran unchanged since the last message; the latest: " + error.getMessage());
        }
    }

    /**
     * Logs, at most once a minute, that a search has a section {@code ext.resift} that names no session.
     *
     * @param keys the keys of the section
     */
    void withoutSession(Set<String> keys) {
        long now = nanoTime.getAsLong();
        long due = nextSessionLog.get();
        if (now - due >= 0 && nextSessionLog.compareAndSet(due, now + LOG_INTERVAL_NANOS)) {
            String named = keys.stream().sorted().limit(NAMED_KEYS).map(Stats::printable).collect(Collectors.joining(", "));
            log.accept("a search ran unchanged, because ext.resift names no session: its keys are [" + named + "], expected [session]");
        }
    }

    private static String printable(String key) {
        return key.substring(0, Math.min(key.length(), MAX_KEY_LENGTH)).replaceAll("\\p{Cntrl}", "?");
    }

    /** Returns the number of searches that ran unchanged because of this kind of failure. */
    long count(Failure failure) {
        return failed.get(failure).sum();
    }

    @Override
    public XContentBuilder toXContent(XContentBuilder builder, Params params) throws IOException {
        long failures = failed.values().stream().mapToLong(LongAdder::sum).sum();
        builder.startObject("searches");
        builder.field("in_session", rewritten.sum() + unchanged.sum() + failures);
        builder.field("rewritten", rewritten.sum());
        builder.field("unchanged", unchanged.sum());
        builder.startObject("failed");
        for (Map.Entry<Failure, LongAdder> entry : failed.entrySet()) {
            builder.field(entry.getKey().label(), entry.getValue().sum());
        }
        return builder.endObject().endObject();
    }
}
