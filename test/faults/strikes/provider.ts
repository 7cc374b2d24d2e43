import type { Fault as ProviderFault } from '../../../simulator/fault.ts';
import type { RequestOutcome } from '../../../simulator/request.ts';
import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import type { World } from '../world/world.ts';
import { repeatedly } from './repeatedly.ts';

/** Requests that are answered as they should for each that is not: a step is tried again only so often. */
const REQUESTS_PER_FAILURE = 4;

const BROKEN_OFF: readonly RequestOutcome[] = ['cut', 'stalled'];

/** Lets the provider fail, unless it has failed just now. */
export function createFailing({ simulator }: World): (fault: ProviderFault) => void {
  let lastAt = 0;
  return (fault) => {
    if (simulator.requests.length < lastAt + REQUESTS_PER_FAILURE) return;
    lastAt = simulator.requests.length;
    simulator.fault('faulty', fault);
  };
}

/** Requests that the provider refused or broke off. */
export const failuresOf = ({ simulator }: World): Readonly<Record<string, number>> => ({
  'failures of the provider': simulator.requests.filter(
    ({ outcome, refusal }) => refusal === 'fault' || BROKEN_OFF.includes(outcome),
  ).length,
});

const failing = (name: string, about: string, make: (random: Random) => ProviderFault): Fault => ({
  name: `provider-${name}`,
  about,
  isHarmless: true,
  strike(world, random, signal) {
    const fail = createFailing(world);
    return repeatedly({ random, signal, pauseMs: [20, 150] }, () => fail(make(random)));
  },
  hits: failuresOf,
});

/** Answers whose stream the provider gave again: each is a model call that was not asked a second time. */
export const readAgain = ({ simulator }: Pick<World, 'simulator'>): Readonly<Record<string, number>> => ({
  'answers read again': simulator.backgrounds().filter(({ streamedAgain }) => streamedAgain > 0).length,
});

/** Long enough that a worker dies in the middle of them. */
export const IN_BACKGROUND = {
  agent: { inBackground: true },
  manners: { chunkDelayMs: 15, maxChunks: 20 },
} as const;

const CUT = failing('cut', 'the connection to the provider breaks in the middle of an answer', (random) => ({
  kind: 'cut',
  afterChunks: random.between(0, 6),
}));

export const PROVIDER: readonly Fault[] = [
  failing('429', 'the provider asks for pauses', (random) => ({
    kind: 'rate-limit',
    retryAfterMs: random.between(50, 400),
  })),
  failing('5xx', 'the provider fails', (random) => ({ kind: random.pick(['server-error', 'overloaded']) })),
  failing('stall', 'the provider falls silent in the middle of an answer', (random) => ({
    kind: 'stall',
    afterChunks: random.between(0, 6),
  })),
  CUT,
  {
    ...CUT,
    ...IN_BACKGROUND,
    name: 'provider-cut-background',
    about: `${CUT.about}, which it goes on making in the background`,
    hits: (world) => ({ ...failuresOf(world), ...readAgain(world) }),
  },
];
