// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * A circuit breaker, which stops searches from calling a service that is down.
 *
 * <p>The breaker opens after {@value #THRESHOLD} failures in a row. While it is open, searches run unchanged at once. Once a second, a search
 * also starts a trial call, if none is running, but does not wait for the answer. A service that is still down therefore does not delay any search. The first trial
 * call that succeeds closes the breaker.
 */
final class Breaker {
    static final int THRESHOLD = 3;
    static final long TRIAL_INTERVAL_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final LongSupplier nanoTime;
    private final AtomicInteger failures = new AtomicInteger();
    private final AtomicLong nextTrial = new AtomicLong();
    private final AtomicBoolean isTrialRunning = new AtomicBoolean();

    /**
     * @param nanoTime a clock such as {@link System#nanoTime}
     */
    Breaker(LongSupplier nanoTime) {
        this.nanoTime = nanoTime;
    }

    /** Returns whether searches must not wait for the service. */
    boolean isOpen() {
        return failures.get() >= THRESHOLD;
    }

    /** Returns the number of failures since the last success. */
    int consecutiveFailures() {
        return failures.get();
    }

    /**
     * Returns whether the caller should make a trial call now. The result is true for at most one caller a second, and only after the last trial
     * call has ended. Otherwise, trial calls of services with long timeouts could occupy all threads.
     */
    boolean claimTrial() {
        long now = nanoTime.getAsLong();
        if (isOpen() == false || now - nextTrial.get() < 0 || isTrialRunning.compareAndSet(false, true) == false) {
            return false;
        }
        nextTrial.set(now + TRIAL_INTERVAL_NANOS);
        return true;
    }

    /** Records that the trial call has ended, with or without success. */
    void endTrial() {
        isTrialRunning.set(false);
    }

    /**
     * Records that the service answered.
     *
     * @return whether this closed the breaker
     */
    boolean succeeded() {
        return failures.get() > 0 && failures.getAndSet(0) >= THRESHOLD;
    }

    /**
     * Records a failure.
     *
     * @return whether this opened the breaker
     */
    boolean failed() {
        int count = failures.updateAndGet(n -> n == Integer.MAX_VALUE ? n : n + 1);
        if (count == THRESHOLD) {
            nextTrial.set(nanoTime.getAsLong() + TRIAL_INTERVAL_NANOS);
        }
        return count == THRESHOLD;
    }
}
