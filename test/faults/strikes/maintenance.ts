import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import type { Member } from '../world/fleet.ts';
import type { Strikes } from '../world/strikes.ts';
import type { World } from '../world/world.ts';
import { killAt, type Moment } from './kill-at.ts';

const SOON = [1, 2] as const;
/** Late enough that something has been struck at the moments that count before. */
const LATER = [4, 24] as const;

const ASKED = { line: 'provider', marker: /<summary_request>/ } as const;
const COMPACTED = { line: 'postgres', marker: /baton_finish_maintenance[\s\S]*"compaction"/ } as const;
const PRUNED = { line: 'postgres', marker: /baton_finish_maintenance[\s\S]*"prune:complete"/ } as const;

const COMPACTION: readonly Moment[] = [
  // The first words of the summary are on their way.
  { ...ASKED, on: 'reply', nth: SOON },
  { ...ASKED, on: 'reply', nth: LATER, laterMs: 100 },
  { ...ASKED, on: 'request', nth: LATER },
  { line: 'postgres', marker: /baton_begin_compaction/, on: 'reply', nth: LATER },
  { ...COMPACTED, on: 'request', nth: LATER },
  { ...COMPACTED, on: 'reply', nth: LATER },
];

const PRUNE: readonly Moment[] = [
  { ...PRUNED, on: 'request', nth: SOON },
  { ...PRUNED, on: 'reply', nth: LATER },
];

const killAround =
  (moments: readonly Moment[]) =>
  (member: Member, random: Random, strikes: Strikes): void => {
    for (const [no, moment] of moments.entries()) killAt(member, random.fork(`moment ${no}`), strikes, moment);
  };

/** Compactions that were orphaned while the provider was answering their request for a summary. */
const openSummaries = ({ simulator, timeline }: World): number =>
  timeline.orphans.filter(
    ({ jobKind, sessionId, killedAtMs }) =>
      jobKind === 'compaction' &&
      simulator.requests.some(
        ({ summary, cacheKey, startedAtMs, endedAtMs = Number.POSITIVE_INFINITY }) =>
          summary && cacheKey === sessionId && startedAtMs <= killedAtMs && killedAtMs < endedAtMs,
      ),
  ).length;

const orphansAt = ({ timeline }: World, kind: string): number =>
  timeline.orphans.filter(({ jobKind }) => jobKind === kind).length;

export const MAINTENANCE: readonly Fault[] = [
  {
    name: 'kill-compaction',
    about: 'SIGKILL while a view is compacted, most of them while the summarizer writes',
    environment: LONG_LEASES,
    tapped: ['postgres', 'provider'],
    agent: { context: { maxContextTokens: 4_000, prune: { enabled: false } } },
    traffic: { sessions: 4, paddingChars: 3_000 },
    onMember: killAround(COMPACTION),
    hits: (world) => ({
      'compactions orphaned': orphansAt(world, 'compaction'),
      'of them with an open request': openSummaries(world),
    }),
  },
  {
    name: 'kill-prune',
    about: 'SIGKILL while old tool outputs are taken out of a view',
    environment: { ...LONG_LEASES, BATON_TEST_OUTPUT_CHARS: '800' },
    tapped: ['postgres'],
    agent: {
      context: {
        maxContextTokens: 4_000,
        prune: { protectTokens: 400, minimumTokens: 200 },
        // From there on a prune need not pay.
        compaction: { options: { thresholdPercent: 50 } },
      },
    },
    traffic: { sessions: 4 },
    onMember: killAround(PRUNE),
    hits: (world) => ({ 'prunes orphaned': orphansAt(world, 'prune') }),
  },
];
