// SPDX-License-Identifier: MIT
//
// Peers: java.util.concurrent.ScheduledThreadPoolExecutor with 2 core threads
// ("stpe": default policy, "stpe-rm": setRemoveOnCancelPolicy(true)) and
// Netty's HashedWheelTimer ("netty": its worker thread runs the tasks).
//
// A server, so that the JVM stays warm between repetitions: reads one command
// a line, answers metric lines, then a line with a single dot.
import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;

public class JavaPeers {
  interface Fire { void fire(int i); }

  interface Sched {
    Object arm(Fire f, int i, long delayNs);
    boolean cancel(Object handle);
    long backlog(); // entries still held by the scheduler, -1 if unknown
    void close();
  }

  static final class Stpe implements Sched {
    final ScheduledThreadPoolExecutor x = new ScheduledThreadPoolExecutor(2);
    Stpe(boolean rm) {
      x.setRemoveOnCancelPolicy(rm);
      x.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
      x.prestartAllCoreThreads();
    }
    public Object arm(Fire f, int i, long ns) {
      return x.schedule(() -> f.fire(i), ns, TimeUnit.NANOSECONDS);
    }
    public boolean cancel(Object h) { return ((ScheduledFuture<?>) h).cancel(false); }
    public long backlog() { return x.getQueue().size(); }
    public void close() { x.shutdownNow(); }
  }

  static final class Netty implements Sched {
    final HashedWheelTimer x;
    Netty(int tickMs, int wheel) {
      x = new HashedWheelTimer(tickMs, TimeUnit.MILLISECONDS, wheel);
      x.start();
    }
    public Object arm(Fire f, int i, long ns) {
      TimerTask t = to -> f.fire(i);
      return x.newTimeout(t, ns, TimeUnit.NANOSECONDS);
    }
    public boolean cancel(Object h) { return ((Timeout) h).cancel(); }
    public long backlog() { return x.pendingTimeouts(); }
    public void close() { x.stop(); }
  }

  static String kind;
  // netty: the documented defaults (100 ms, 512) would be 10x later than anyone
  // else; 1 ms ticks for lateness, 10 ms and a wheel of 8192 for the rest
  static Sched open(boolean fine) {
    switch (kind) {
      case "stpe": return new Stpe(false);
      case "stpe-rm": return new Stpe(true);
      default: return fine ? new Netty(1, 8192) : new Netty(10, 8192);
    }
  }

  static final class Rng {
    long s;
    Rng(long seed) { s = seed; }
    long next() {
      long z = (s += 0x9e3779b97f4a7c15L);
      z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
      z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
      return z ^ (z >>> 31);
    }
    int below(int n) { return (int) (((next() >>> 32) * n) >>> 32); }
    long delay() { return (delayBase + below(59001)) * 1000000L; }
  }

  static int delayBase = 1000; // 20000 for N >= 10^7: nothing may fall due while W1/W2 run
  static final LongAdder count = new LongAdder();
  static final Fire NOP = i -> count.increment();

  static void emit(String k, double v) { System.out.printf("%s %.4f%n", k, v); }
  static void die(String why) { System.out.println("FAIL " + why); System.out.flush(); Runtime.getRuntime().halt(1); }

  static long cpu() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }
  static double rss() throws Exception {
    return Double.parseDouble(Files.readString(Paths.get("/proc/self/statm")).split(" ")[1]) * 4096;
  }
  static double used() {
    System.gc();
    System.gc();
    Runtime r = Runtime.getRuntime();
    return r.totalMemory() - r.freeMemory();
  }
  static long[] delays(int n) {
    Rng r = new Rng(1);
    long[] d = new long[n];
    for (int i = 0; i < n; i++) d[i] = r.delay();
    return d;
  }
  static double armAll(Sched s, Object[] T, long[] d) {
    long t0 = System.nanoTime();
    for (int i = 0; i < T.length; i++) T[i] = s.arm(NOP, i, d[i]);
    return (double) (System.nanoTime() - t0) / T.length;
  }

  static void mem(int n) throws Exception {
    delayBase = n >= 10000000 ? 20000 : 1000;
    long[] d = delays(n);
    Object[] T = new Object[n];
    Sched s = open(false);
    double u0 = used(), r0 = rss();
    double cold = armAll(s, T, d);
    double r1 = rss();
    if (kind.equals("netty")) Thread.sleep(200); // the worker files them into the wheel
    emit("bytes", (r1 - r0) / n);
    emit("live_bytes", (used() - u0) / n);
    emit("arm_cold_ns", cold);
    if (T[n / 2] == null) die("mem");
    s.close();
  }

  static void w12(int n, double secs) throws Exception {
    delayBase = n >= 10000000 ? 20000 : 1000;
    count.reset();
    long[] d = delays(n);
    Object[] T = new Object[n];
    int rounds = n <= 10000 ? 10 : n <= 100000 ? 3 : 1;
    double sum = 0;
    Sched s = null;
    for (int r = 0; r < rounds; r++) {
      if (s != null) s.close();
      s = open(false);
      sum += armAll(s, T, d);
    }
    emit("arm_ns", sum / rounds);
    if (kind.equals("netty")) Thread.sleep(30);
    Rng r = new Rng(99);
    long pairs = 0, t0 = 0, c0 = 0;
    for (int pass = 0; pass < 2; pass++) {
      long lim = (long) (pass == 0 ? secs * 0.25e9 : secs * 1e9);
      pairs = 0;
      c0 = cpu();
      t0 = System.nanoTime();
      do {
        for (int k = 0; k < 256; k++) {
          int i = r.below(n);
          s.cancel(T[i]);
          T[i] = s.arm(NOP, i, r.delay());
        }
        pairs += 256;
      } while (System.nanoTime() - t0 < lim);
    }
    emit("churn_ns", (double) (System.nanoTime() - t0) / pairs);
    emit("churn_cpu_ns", (double) (cpu() - c0) / pairs);
    emit("churn_pairs", pairs);
    emit("churn_fired", count.sum());
    emit("backlog_ratio", (double) s.backlog() / n);
    s.close();
  }

  static void w3(int n) throws Exception {
    Sched s = open(true);
    LongAdder hits = new LongAdder();
    Fire f = i -> hits.increment();
    long due = System.nanoTime() + 50000000L + n * 1200L;
    for (int i = 0; i < n; i++) s.arm(f, i, due - System.nanoTime());
    long armed = System.nanoTime();
    while (System.nanoTime() < due - 2000000L) LockSupport.parkNanos(1000000);
    while (hits.sum() < n) LockSupport.parkNanos(200000);
    long end = System.nanoTime();
    Thread.sleep(5);
    if (hits.sum() != n) die("w3 count");
    emit("fire_ns", (double) (end - Math.max(armed, due)) / n);
    emit("armed_late", armed > due ? 1 : 0);
    s.close();
  }

  static void w4(int p, boolean rnd, int total) throws Exception {
    Sched s = open(true);
    int each = total / p;
    int sum = each * p;
    LongAdder hits = new LongAdder();
    Fire f = i -> hits.increment();
    AtomicLong ns = new AtomicLong();
    CountDownLatch ready = new CountDownLatch(p), go = new CountDownLatch(1), done = new CountDownLatch(p);
    for (int q = 0; q < p; q++) {
      final int base = q * each;
      new Thread(() -> {
        Rng r = new Rng(1000 + base);
        ready.countDown();
        try { go.await(); } catch (InterruptedException e) { return; }
        long t0 = System.nanoTime();
        for (int k = 0; k < each; k++) s.arm(f, base + k, rnd ? r.delay() : 0);
        ns.addAndGet(System.nanoTime() - t0);
        done.countDown();
      }).start();
    }
    ready.await();
    Thread.sleep(5);
    long t0 = System.nanoTime();
    go.countDown();
    done.await();
    if (!rnd) while (hits.sum() < sum) LockSupport.parkNanos(200000);
    else if (kind.equals("netty")) { /* accepted = queued for the worker */ }
    long end = System.nanoTime();
    if (rnd && s.backlog() != sum) die("w4 backlog");
    emit("submit_ns", (double) ns.get() / sum);
    emit("total_ns", (double) (end - t0) / sum);
    s.close();
  }

  static void periodic(int k, int periodMs, double secs, boolean record) throws Exception {
    Sched s = open(true);
    int cap = record ? (int) (secs * 40000 + 10000) : 0;
    long[] late = new long[cap];
    byte[] win = new byte[cap];
    AtomicInteger ns = new AtomicInteger();
    LongAdder execs = new LongAdder();
    long[] ideal = new long[k], period = new long[k], last = new long[k];
    long t0 = System.nanoTime() + 50000000L + k * 2000L;
    long winNs = (long) (secs * 1e9 / 5);
    Rng r = new Rng(77);
    for (int i = 0; i < k; i++) {
      int ms = periodMs != 0 ? periodMs : 10 + i % 91;
      period[i] = ms * 1000000L;
      ideal[i] = t0 + r.below(ms * 1000) * 1000L;
    }
    boolean[] over = {false};
    Fire[] self = new Fire[1];
    self[0] = i -> {
      long now = System.nanoTime();
      last[i] = now - ideal[i];
      if (record) {
        int j = ns.getAndIncrement();
        if (j < cap) {
          late[j] = last[i];
          win[j] = (byte) Math.max(0, Math.min(100, (now - t0) / winNs));
        }
      }
      execs.increment();
      ideal[i] += period[i];
      if (s instanceof Netty && !over[0]) s.arm(self[0], i, ideal[i] - System.nanoTime());
    };
    for (int i = 0; i < k; i++) {
      final int ii = i;
      if (s instanceof Stpe) {
        ((Stpe) s).x.scheduleAtFixedRate(() -> self[0].fire(ii), ideal[i] - System.nanoTime(), period[i], TimeUnit.NANOSECONDS);
      } else {
        s.arm(self[0], i, ideal[i] - System.nanoTime());
      }
    }
    while (System.nanoTime() < t0) LockSupport.parkNanos(500000);
    long c0 = cpu(), e0 = execs.sum(), b0 = System.nanoTime();
    Thread.sleep((long) (secs * 1e3));
    long c1 = cpu(), e1 = execs.sum(), b1 = System.nanoTime();
    over[0] = true;
    s.close();
    if (record) {
      emit("cpu_ms", (c1 - c0) / 1e6);
      emit("execs", e1 - e0);
      int n = Math.min(cap, ns.get());
      for (int w = 0; w < 5; w++) {
        long[] v = new long[n];
        int m = 0;
        for (int i = 0; i < n; i++) if (win[i] == w) v[m++] = late[i];
        if (m == 0) continue;
        Arrays.sort(v, 0, m);
        System.out.printf("win p50 %.1f p99 %.1f p999 %.1f max %.1f n %d%n", v[m / 2] / 1e3,
            v[(int) (m * 0.99)] / 1e3, v[(int) (m * 0.999)] / 1e3, v[m - 1] / 1e3, m);
      }
      Arrays.sort(last);
      emit("drift_us", last[k / 2] / 1e3);
    } else {
      emit("keepup", (e1 - e0) / ((b1 - b0) / 1e6 / periodMs * k));
      emit("cpu_s_per_M", (c1 - c0) / 1e9 / (e1 - e0) * 1e6);
    }
  }

  static void check() throws Exception {
    int n = 20000;
    Sched s = open(true);
    Rng r = new Rng(5);
    AtomicIntegerArray fired = new AtomicIntegerArray(n);
    int[] want = new int[n];
    long cancelled = 0;
    AtomicLong early = new AtomicLong();
    Object[] T = new Object[n];
    long[] due = new long[n];
    Fire f = i -> {
      fired.incrementAndGet(i);
    };
    for (int i = 0; i < n; i++) {
      long ns = (20 + r.below(200)) * 1000000L;
      T[i] = arm1(s, f, early, i, ns);
      want[i]++;
    }
    for (int k = 0; k < 20000; k++) {
      int i = r.below(n);
      if (s.cancel(T[i])) { want[i]--; cancelled++; }
      T[i] = arm1(s, f, early, i, (20 + r.below(200)) * 1000000L);
      want[i]++;
    }
    for (int i = 0; i < n; i += 2) if (s.cancel(T[i])) { want[i]--; cancelled++; }
    Thread.sleep(350);
    // Future.cancel(false) also returns true for a task that is already running,
    // so a cancel that met a start counts one execution more: rare, and by design
    long tot = 0, raced = 0;
    for (int i = 0; i < n; i++) {
      if (fired.get(i) == want[i] + 1) raced++;
      else if (fired.get(i) != want[i]) die("check: a task fired a wrong number of times");
      tot += fired.get(i);
    }
    if (raced > 20) die("check: cancelled tasks fired");
    emit("check_raced", raced);
    if (early.get() > 15000000L) die("check: early");
    emit("check_early_us", Math.max(0, early.get()) / 1e3);
    emit("check_fired", tot);
    emit("check_cancelled", cancelled);
    s.close();
  }
  static Object arm1(Sched s, Fire f, AtomicLong early, int i, long ns) {
    long d = System.nanoTime() + ns;
    return s.arm(j -> { early.accumulateAndGet(d - System.nanoTime(), Math::max); f.fire(j); }, i, ns);
  }

  public static void main(String[] a) throws Exception {
    kind = a[0];
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] c = line.trim().split(" +");
      if (c[0].equals("quit")) break;
      if (c[0].equals("check")) check();
      else if (c[0].equals("mem")) mem(Integer.parseInt(c[1]));
      else if (c[0].equals("w12")) w12(Integer.parseInt(c[1]), Double.parseDouble(c[2]));
      else if (c[0].equals("w3")) w3(Integer.parseInt(c[2]));
      else if (c[0].equals("w4")) w4(Integer.parseInt(c[2]), c[3].equals("rand"), Integer.parseInt(c[4]));
      else if (c[0].equals("w5")) periodic(1000, 0, Double.parseDouble(c[2]), true);
      else if (c[0].equals("w6")) periodic(Integer.parseInt(c[2]), Integer.parseInt(c[3]), Double.parseDouble(c[4]), false);
      else die("what: " + line);
      System.out.println(".");
      System.out.flush();
    }
    System.exit(0);
  }
}
