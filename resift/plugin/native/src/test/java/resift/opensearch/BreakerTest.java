// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicLong;

import org.junit.jupiter.api.Test;

class BreakerTest {
    private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 5);
    private final Breaker breaker = new Breaker(clock::get);

    @Test
    void opensAfterThreeFailuresInARow() {
        assertFalse(breaker.failed());
        assertFalse(breaker.failed());
        assertFalse(breaker.isOpen());
        assertTrue(breaker.failed());
        assertTrue(breaker.isOpen());
        assertFalse(breaker.failed(), "it was open already");
    }

    @Test
    void aSuccessResetsTheCount() {
        breaker.failed();
        breaker.failed();
        assertFalse(breaker.succeeded(), "it was not open");
        breaker.failed();
        breaker.failed();
        assertFalse(breaker.isOpen());
        assertEquals(2, breaker.consecutiveFailures());
    }

    @Test
    void allowsOneTrialPerIntervalWhileItIsOpen() {
        assertFalse(breaker.claimTrial(), "a closed breaker needs no trial");
        open();
        assertFalse(breaker.claimTrial(), "too early");
        clock.addAndGet(Breaker.TRIAL_INTERVAL_NANOS); // the clock overflows here, as System.nanoTime may
        assertTrue(breaker.claimTrial());
        breaker.endTrial();
        assertFalse(breaker.claimTrial(), "another search has claimed it");
        clock.addAndGet(Breaker.TRIAL_INTERVAL_NANOS);
        assertTrue(breaker.claimTrial());
        clock.addAndGet(Breaker.TRIAL_INTERVAL_NANOS);
        assertFalse(breaker.claimTrial(), "the last trial has not ended");
        breaker.endTrial();
        assertTrue(breaker.claimTrial());
    }

    @Test
    void closesAfterASuccessfulTrial() {
        open();
        assertTrue(breaker.succeeded());
        assertFalse(breaker.isOpen());
        assertFalse(breaker.succeeded(), "it is closed already");
    }

    private void open() {
        for (int i = 0; i < Breaker.THRESHOLD; i++) {
            breaker.failed();
        }
    }
}
