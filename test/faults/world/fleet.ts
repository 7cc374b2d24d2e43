import { writeFileSync } from 'node:fs';
import type pg from 'pg';
import type { Random } from '../../support/random.ts';
import { STANDS_STILL } from '../ledger-tools.ts';
import { type Child, startChild } from './child.ts';
import { KILLS_OF_WORKERS, type Strikes } from './strikes.ts';
import { openTap, type Tap } from './tap.ts';
import type { Timeline } from './timeline.ts';

/** A connection of a worker that can be tapped. */
export type Line = 'postgres' | 'redis' | 'provider';

/** A worker process that lives. */
export type Member = Readonly<{
  child: Child;
  workerId: string;
  taps: Readonly<Partial<Record<Line, Tap>>>;
  /**
   * Kills the worker at once and records the runs that it orphans, `runId` among them. False: it had ended by itself,
   * or it was spared. The last living worker is always spared; while a dead one is not yet replaced, others mostly are,
   * unless `soon` asks for a kill upon another.
   */
  kill: (runId?: string, soon?: 'upon-another') => boolean;
}>;

export type FleetOptions = Readonly<{
  size: number;
  /** The entry points of the versions that run side by side, taken in turn. */
  files: readonly string[];
  environment: Readonly<Record<string, string>>;
  /** The server at the end of each line: its port on this machine, and the environment variable with its URL. */
  targets: Readonly<Partial<Record<Line, Readonly<{ port: () => number; variable: string; url: () => string }>>>>;
  tapped: readonly Line[];
  database: pg.Pool;
  timeline: Timeline;
  strikes: Strikes;
  random: Random;
  /** `environmentOf`: further environment of a new member. `onMember`: arms the taps of a new member. */
  environmentOf?: ((random: Random, strikes: Strikes) => Readonly<Record<string, string>>) | undefined;
  /** `onStart`: harms the taps of a member that is about to be started. */
  onStart?: ((taps: Member['taps'], random: Random, strikes: Strikes) => void) | undefined;
  onMember?: ((member: Member, random: Random, strikes: Strikes) => void) | undefined;
}>;

/** Worker processes under a supervisor. Every worker that ends is replaced, a killed one a little later. */
export type Fleet = AsyncDisposable &
  Readonly<{
    members: () => readonly Member[];
    /** Undefined while no worker lives. */
    anyone: (random: Random) => Member | undefined;
    deaths: () => number;
    /** Descriptions of the ends of workers that were neither killed nor told to end. */
    ownEnds: () => readonly string[];
  }>;

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const members = new Set<Member>();
  const taps = new Set<Tap>();
  const starting = new Set<Promise<unknown>>();
  let stopping = false;
  let count = 0;
  let deaths = 0;
  const ownEnds: string[] = [];

  const startMember = async (): Promise<void> => {
    const no = count++;
    const random = options.random.fork(`member ${no}`);
    const opened = await openTaps(options);
    for (const tap of Object.values(opened)) taps.add(tap);
    if (count > options.size) options.onStart?.(opened, random, options.strikes);
    const heard = { workerId: '' };
    const joined = Promise.withResolvers<Member>();
    const child = await startChild({
      file: options.files[no % options.files.length] ?? '',
      environment: {
        ...options.environment,
        ...urlsThrough(options, opened),
        ...options.environmentOf?.(random, options.strikes),
      },
      onLine(line) {
        if (typeof line['workerId'] === 'string' && line['event'] === 'process_started')
          heard.workerId = line['workerId'];
        options.timeline.hear(heard.workerId, line);
        if (line['event'] === STANDS_STILL) {
          void joined.promise.then((it) => it.kill() || writeFileSync(String(line['goOn']), ''));
        }
      },
    });
    const { workerId } = heard;
    const kill = (runId?: string, soon?: 'upon-another'): boolean => {
      const isUponAnother = members.size < options.size && soon === undefined;
      if (members.size < 2 || (isUponAnother && !random.chance(KILLS_UPON_KILLS))) return false;
      const atMs = performance.now();
      if (!child.kill('SIGKILL')) return false;
      members.delete(member);
      options.strikes.add(KILLS_OF_WORKERS);
      options.timeline.killed(atMs);
      void rememberOrphans(options, workerId, runId, atMs);
      return true;
    };
    const member: Member = { child, workerId, taps: opened, kill };
    members.add(member);
    joined.resolve(member);
    options.onMember?.(member, random, options.strikes);
    void child.ended.then(async (signal) => {
      // `kill` would have removed the member already: this SIGKILL came from elsewhere.
      if (members.delete(member) && signal === 'SIGKILL' && !stopping) {
        void rememberOrphans(options, workerId, undefined, performance.now());
      }
      deaths += 1;
      const ownEnd = child.ownEnd();
      if (ownEnd !== null) ownEnds.push(`worker ${workerId} ended by itself: ${ownEnd}`);
      for (const tap of Object.values(opened)) {
        taps.delete(tap);
        await tap[Symbol.asyncDispose]();
      }
      if (!stopping) setTimeout(supervise, signal === 'SIGKILL' && members.size > 0 ? REPLACED_AFTER_MS : 0);
    });
  };
  const supervise = (): void => {
    if (stopping) return;
    const start = startMember().catch((error: unknown) => {
      // No worker can start while a service is down: the next one may.
      if (stopping) return;
      options.timeline.hear('', { event: 'member_not_started', error: String(error) });
      setTimeout(supervise, RESTART_PAUSE_MS);
    });
    starting.add(start);
    void start.finally(() => starting.delete(start));
  };
  await Promise.all(Array.from({ length: options.size }, startMember));
  return {
    members: () => [...members],
    anyone: (random) => (members.size === 0 ? undefined : random.pick([...members])),
    deaths: () => deaths,
    ownEnds: () => ownEnds,
    async [Symbol.asyncDispose]() {
      stopping = true;
      await Promise.allSettled(starting);
      const left = [...members];
      for (const member of left) {
        member.child.kill('SIGCONT');
        member.child.kill('SIGKILL');
      }
      await Promise.all(left.map((member) => member.child.ended));
      await Promise.all([...taps].map((tap) => tap[Symbol.asyncDispose]()));
    },
  };
}

const RESTART_PAUSE_MS = 200;

/** Chance of a kill while another worker is dead and not yet replaced. */
const KILLS_UPON_KILLS = 0.2;

/**
 * A real supervisor takes its time too. If dead workers were replaced at once, the measured recovery would wait for the
 * start of a process, which takes a core for a second.
 */
const REPLACED_AFTER_MS = 2_500;

async function openTaps({ tapped, targets }: FleetOptions): Promise<Partial<Record<Line, Tap>>> {
  const opened: Partial<Record<Line, Tap>> = {};
  for (const line of tapped) {
    const target = targets[line];
    if (target !== undefined) opened[line] = await openTap(target.port());
  }
  return opened;
}

function urlsThrough({ targets }: FleetOptions, opened: Partial<Record<Line, Tap>>): Record<string, string> {
  const urls: Record<string, string> = {};
  for (const [line, target] of Object.entries(targets)) {
    const url = new URL(target.url());
    const tap = opened[line as Line];
    if (tap !== undefined) url.port = String(tap.port);
    urls[target.variable] = url.href.replace(/\/$/, '');
  }
  return urls;
}

/** Records the runs that a dead worker had in hand, and the run that it was about to pass on. */
async function rememberOrphans(
  { database, timeline }: FleetOptions,
  workerId: string,
  runId: string | undefined,
  atMs: number,
): Promise<void> {
  try {
    const { rows } = await database.query<{ id: string; sessionId: string; jobKind: string }>(
      `select id, session_id as "sessionId", pending_kind as "jobKind" from runs where claim_id is not null and status in ('running', 'cancelling') and starts_with(lease_owner, $1)
       union select id, session_id, pending_kind from runs where id = $2 and claim_id is null and pending_kind is not null`,
      [workerId, runId ?? null],
    );
    timeline.orphaned(workerId, rows, atMs);
  } catch {
    // Postgres is away as well: there is nothing to measure.
  }
}
