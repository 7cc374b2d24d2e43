import { monitorEventLoopDelay } from 'node:perf_hooks';
import { z } from 'zod';

/**
 * Loaded before an entry point: on SIGUSR2 the process prints for how long its event loop was held at most since the
 * last time, and how many mistakes validations have found. On a machine that is busy with other things a loop is late
 * without being held: what counts is the time of the processor that the thread took between two looks.
 */

const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();

let cpuMs = 0;
const readCpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};
let lookedAtMs = readCpuMs();
const look = (): void => {
  const nowMs = readCpuMs();
  cpuMs = Math.max(cpuMs, nowMs - lookedAtMs);
  lookedAtMs = nowMs;
};
setInterval(look, 1).unref();

let issues = 0;
// Asked for the words of each mistake that a validation finds.
z.config({
  customError: () => {
    issues++;
    return undefined;
  },
});

process.on('SIGUSR2', () => {
  look();
  const heldMs = Math.min(delay.max / 1e6, cpuMs);
  process.stdout.write(`${JSON.stringify({ event: 'loop_watched', heldMs, issues })}\n`);
  delay.reset();
  cpuMs = 0;
  issues = 0;
});
