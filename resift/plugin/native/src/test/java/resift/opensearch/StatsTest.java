// SPDX-License-Identifier: Apache-2.0
package resift.opensearch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

import org.junit.jupiter.api.Test;

class StatsTest {
    private final AtomicLong clock = new AtomicLong();
    private final List<String> log = new ArrayList<>();
    private final Stats stats = new Stats(clock::get, log::add);

    @Test
    void logsFailuresAtMostOnceAMinute() {
        for (int i = 0; i < 100; i++) {
            stats.failed(new RewriteException(Failure.TIMEOUT, "http://127.0.0.1 did not answer in 300 ms"));
        }
        assertEquals(1, log.size());
        clock.addAndGet(TimeUnit.MINUTES.toNanos(1));
        stats.failed(new RewriteException(Failure.UNREACHABLE, "refused"));
        assertEquals(2, log.size());
        assertTrue(log.get(0).startsWith("1 search"), log.get(0));
        assertTrue(log.get(1).startsWith("100 search") && log.get(1).endsWith("unreachable: refused"), log.get(1));
        assertEquals(100, stats.count(Failure.TIMEOUT));
        assertEquals(1, stats.count(Failure.UNREACHABLE));
    }

    @Test
    void logsKeysWithoutSessionAtMostOnceAMinute() {
        for (int i = 0; i < 100; i++) {
            stats.withoutSession(Set.of("sesion", "a\nb"));
        }
        assertEquals(List.of("a search ran unchanged, because ext.resift names no session: its keys are [a?b, sesion], expected [session]"), log);
        clock.addAndGet(TimeUnit.MINUTES.toNanos(1));
        stats.withoutSession(Set.of("alpha"));
        assertEquals(2, log.size());
    }
}
