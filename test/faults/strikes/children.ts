import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import { type Api, createApi } from '../world/api.ts';
import { DELEGATE, TOOLS } from '../world/model.ts';
import type { World } from '../world/world.ts';
import { killAround, type Moment } from './kill-at.ts';
import { SESSIONS_OF_KILLS } from './kills.ts';
import { repeatedly } from './repeatedly.ts';

// The ids of a child's session and run are made of its call: they are UUIDs of version 8, unlike all other ids.
const CHILD_ID = '[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';
const CHILD_RUN = 'run_[0-9a-f]{12}8[0-9a-f]{3}[89ab][0-9a-f]{15}';
const isChild = (sessionId: string): boolean => sessionId[14] === '8';

const SOON = [1, 2] as const;
const LATER = [3, 15] as const;
const BOTH = { nth: LATER, firstNth: SOON, line: 'postgres' } as const;

const BEGUN = /update children c set state = 'running'/;
/** The last write of a delivery. */
const END_TOLD = /child:ended/;
const JOB_ADDED = new RegExp(`"runId":"${CHILD_RUN}","kind":"step","no":1,`);
const CLAIMED = new RegExp(`baton_claim_run[\\s\\S]*${CHILD_ID}`);
const ENDED = new RegExp(
  `(?=[\\s\\S]*(?:baton_finish_step|"kind":"finish"))(?=[\\s\\S]*${CHILD_ID})(?=[\\s\\S]*"status":"completed")`,
);

const SPAWN: readonly Moment[] = [
  { ...BOTH, name: 'asked, none begun', marker: /"requiredAction":"child"/, on: 'reply' },
  { ...BOTH, name: 'begin not committed', marker: BEGUN, on: 'request' },
  { ...BOTH, name: 'begin at its commit', marker: BEGUN, on: 'reply', laterMs: 20 },
];

const beforeClaim = (line: 'redis' | 'postgres'): readonly Moment[] => [
  { ...BOTH, line, name: 'begun, job not added', marker: JOB_ADDED, on: 'request' },
  { ...BOTH, line, name: 'job added, not claimed', marker: JOB_ADDED, on: 'reply' },
  { ...BOTH, name: 'claim not sent', marker: CLAIMED, on: 'request' },
];

const CHILD_END: readonly Moment[] = [
  { ...BOTH, name: 'ended, not delivered', marker: ENDED, on: 'reply' },
  { ...BOTH, name: 'delivery not committed', marker: END_TOLD, on: 'request' },
  { ...BOTH, name: 'delivery at its commit', marker: END_TOLD, on: 'reply', laterMs: 20 },
];

/** Small trees: each run that a person starts becomes some four runs. */
const TREE = {
  agent: { helpers: 2 },
  manners: { tools: [...TOOLS, DELEGATE, DELEGATE, DELEGATE, DELEGATE], maxRounds: 2, maxCalls: 2 },
} satisfies Partial<Fault>;

const KILLED_TREE = {
  ...TREE,
  environment: LONG_LEASES,
  traffic: { sessions: SESSIONS_OF_KILLS },
} satisfies Partial<Fault>;

const CANCELS = 'cancels of trees';
const CANCELS_AT_END = 'cancels at the end of a child';

/** Cancels the run at the root of a child's tree. */
async function cancelRoot(world: World, api: Api, childSessionId: string, what: string): Promise<void> {
  const { rows } = await world.database.query<{ runId: string }>(
    `select 'run_' || replace(root.active_run_id::text, '-', '') as "runId" from sessions child
     join sessions root on root.id = child.root_session_id where child.id = $1 and root.active_run_id is not null`,
    [childSessionId],
  );
  const [root] = rows;
  if (root === undefined) return;
  world.treeCancels.push({ runId: root.runId, atMs: Date.now() });
  await api.cancel(root.runId);
  world.strikes.add(what);
}

/** Chances that a tree is cancelled while the model answers one of its children, and just as a child ends. */
type CancelChances = Readonly<{ inAnswer: number; atEnd: number }>;

const IN_ANSWER_MS = 300;
/** Within this time a child's last step is committed and its result delivered. */
const AT_END_MS = 60;

/** Cancels trees until the signal aborts. The model makes an answer long that is to be cancelled. */
function cancelTrees(world: World, random: Random, signal: AbortSignal, chances: CancelChances): void {
  const api = createApi(() => world.api.url(), signal);
  const soon = (sessionId: string, withinMs: number, what: string): void => {
    const cancel = delay(random.between(0, withinMs), undefined, { signal }).then(() =>
      cancelRoot(world, api, sessionId, what),
    );
    void cancel.catch(() => undefined);
  };
  const onRequest = (sessionId: string, goOn: () => void): void => {
    if (!isChild(sessionId) || !random.chance(chances.inAnswer)) return;
    goOn();
    soon(sessionId, IN_ANSWER_MS, CANCELS);
  };
  const onLastWord = (sessionId: string): void => {
    if (isChild(sessionId) && random.chance(chances.atEnd)) soon(sessionId, AT_END_MS, CANCELS_AT_END);
  };
  for (const what of [CANCELS, CANCELS_AT_END]) world.strikes.add(what, 0);
  world.model.on('request', onRequest).on('last-word', onLastWord);
  signal.addEventListener('abort', () => world.model.off('request', onRequest).off('last-word', onLastWord));
}

export const CHILDREN: readonly Fault[] = [
  {
    ...KILLED_TREE,
    name: 'kill-at-spawn',
    about: 'SIGKILL: calls wait for children and none is begun; a child is being begun, before and around the commit',
    tapped: ['postgres'],
    onMember: killAround(() => SPAWN),
  },
  {
    ...KILLED_TREE,
    name: 'kill-before-child-claim',
    about: 'SIGKILL: a child is begun and its job is not added, or not claimed',
    tapped: ['postgres', 'redis'],
    onMember: killAround(({ taps }) => beforeClaim(taps.redis === undefined ? 'postgres' : 'redis')),
  },
  {
    ...KILLED_TREE,
    name: 'kill-at-child-end',
    about: 'SIGKILL: a child has ended and its result is not delivered, before and around the commit of that',
    tapped: ['postgres'],
    onMember: killAround(() => CHILD_END),
  },
  {
    ...TREE,
    name: 'cancel-against-delivery',
    about: 'people cancel the root of a tree while its children work, and as their results are delivered',
    isHarmless: true,
    traffic: { sessions: 5 },
    async strike(world, random, signal) {
      cancelTrees(world, random, signal, { inAnswer: 0.1, atEnd: 0.3 });
    },
  },
  {
    ...KILLED_TREE,
    name: 'kill-in-tree',
    about: 'SIGKILL at random moments under trees of depth 3, whose roots are cancelled at random moments',
    agent: { helpers: 3 },
    strike(world, random, signal) {
      cancelTrees(world, random.fork('cancels'), signal, { inAnswer: 0.03, atEnd: 0.03 });
      return repeatedly({ random, signal, pauseMs: [600, 3_000] }, () => {
        world.fleet.anyone(random)?.kill();
      });
    },
  },
];
