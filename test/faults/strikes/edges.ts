import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import { killAround, type Moment } from './kill-at.ts';
import { SESSIONS_OF_KILLS } from './kills.ts';

const SOON = [1, 2] as const;
const LATER = [3, 12] as const;
const BOTH = { nth: LATER, firstNth: SOON, line: 'postgres' } as const;

/** A delivery is claimed but not yet sent; or it is sent, but its outcome is not yet written. */
const DELIVERY: readonly Moment[] = [
  { ...BOTH, name: 'claimed, not sent', marker: /update webhook_deliveries set claim_id/, on: 'reply' },
  { ...BOTH, name: 'sent, not noted', marker: /update "webhook_deliveries" set "state"/, on: 'request' },
];

/** A fire and its message are not yet committed; or they are about to be committed, or just have been. */
const FIRE: readonly Moment[] = [
  { ...BOTH, name: 'fires not committed', marker: /insert into "schedule_fires"/, on: 'request' },
  { ...BOTH, name: 'fires at their commit', marker: /update "schedules" set/, on: 'reply', laterMs: 20 },
];

const WORKERS = 3;
const CROWDED_SLOTS = 8 * WORKERS;
const CROWDED_STEPS = 16 * WORKERS;

export const EDGES: readonly Fault[] = [
  {
    name: 'bad-receivers',
    about: 'receivers of webhooks that are slow, dead for a while, hang, redirect to a private address, or answer 410',
    isHarmless: true,
    edges: { receivers: ['well', 'slow', 'dead', 'hangs', 'redirects', 'gone'] },
    hits: (_world, _traffic, { receipts }) =>
      Object.fromEntries(
        ['slow', 'dead', 'hangs', 'redirects', 'gone'].map((path) => [
          `requests to ${path}`,
          receipts.filter((each) => each.path === path).length,
        ]),
      ),
  },
  {
    name: 'crowding-tenant',
    about: 'another tenant has 50 webhooks whose receivers never answer, with 400 deliveries that are due',
    isHarmless: true,
    environment: { BATON_DELIVERY_CONCURRENCY: String(CROWDED_SLOTS / WORKERS) },
    workers: WORKERS,
    edges: { receivers: ['well'], crowdInSlots: CROWDED_SLOTS },
    hits: (_world, _traffic, { crowd }) => ({ 'deliveries of the other tenant that hung': crowd?.hung ?? 0 }),
  },
  {
    name: 'crowding-runs',
    about: 'another tenant has twice as many runs as there are slots, whose models answer for two minutes each',
    isHarmless: true,
    environment: { BATON_STEP_CONCURRENCY: String(CROWDED_STEPS / WORKERS) },
    workers: WORKERS,
    edges: { crowdAtWork: { runs: 2 * CROWDED_STEPS, slots: CROWDED_STEPS }, schedules: 4 },
    hits: (_world, _traffic, { crowdAtWork }) => ({
      'answers of the other tenant':
        crowdAtWork !== undefined && crowdAtWork.requests >= CROWDED_STEPS ? crowdAtWork.requests : 0,
    }),
  },
  {
    name: 'kill-in-delivery',
    about: 'SIGKILL: a delivery to a webhook is claimed and not sent; or sent, and its outcome not written',
    environment: LONG_LEASES,
    traffic: { sessions: SESSIONS_OF_KILLS },
    tapped: ['postgres'],
    edges: { receivers: ['well', 'slow'] },
    onMember: killAround(() => DELIVERY),
  },
  {
    name: 'kill-at-fire',
    about: 'SIGKILL: a schedule fires, before and around the commit',
    environment: LONG_LEASES,
    traffic: { sessions: SESSIONS_OF_KILLS },
    tapped: ['postgres'],
    edges: { receivers: ['well'], schedules: 60 },
    onMember: killAround(() => FIRE),
  },
];
