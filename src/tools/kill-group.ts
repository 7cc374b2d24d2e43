import type { ChildProcess } from 'node:child_process';

/** Kills a process that leads its own group, with all processes in it. */
export function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The group is gone already.
  }
}
