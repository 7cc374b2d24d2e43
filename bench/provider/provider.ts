import type { Reply } from '../../simulator/reply.ts';
import type { SimulatedRequest } from '../../simulator/request.ts';
import { startSimulator } from '../../simulator/server.ts';
import { DELTA, placeInChain } from '../chain/answer.ts';
import { machineNowMs } from '../clock.ts';

/** Times of one answer, in milliseconds of the machine's clock. */
export type Call = {
  /** The request's headers have arrived. */
  readonly arrivedAtMs: number;
  /** The request was read and checked; the answer begins. */
  readonly begunAtMs: number;
  /** The last bytes of the answer are about to be sent. */
  endedAtMs: number;
};

export type BenchProvider = AsyncDisposable &
  Readonly<{
    /** The value for `OPENAI_BASE_URL`. */
    baseUrl: string;
    /** Returns the answers to the requests of one cache key so far, in order, and forgets all earlier requests. */
    take: (cacheKey: string) => readonly Call[];
  }>;

/** The chain's model over HTTP: the simulated provider, whose answers follow the task in the prompt. */
export async function startBenchProvider(): Promise<BenchProvider> {
  const simulator = await startSimulator({ rawBodies: 'none', chunkChars: DELTA.length });
  const calls = new Map<string, Call[]>();
  const clockOffsetMs = machineNowMs() - performance.now();
  const reply = (request: SimulatedRequest): Reply => {
    const record = simulator.requests.findLast((each) => each.request === request);
    if (record === undefined) throw new Error('the provider has no record of a request');
    const call: Call = {
      arrivedAtMs: record.startedAtMs + clockOffsetMs,
      begunAtMs: machineNowMs(),
      endedAtMs: Number.NaN,
    };
    calls.set(request.cacheKey, [...(calls.get(request.cacheKey) ?? []), call]);
    return {
      ...answerTo(request),
      onDelivered: () => {
        call.endedAtMs = machineNowMs();
      },
    };
  };
  simulator.script('*', reply);
  return {
    baseUrl: `${simulator.url}/v1`,
    take(cacheKey) {
      const taken = calls.get(cacheKey) ?? [];
      calls.clear();
      simulator.clear();
      simulator.script('*', reply);
      return taken;
    },
    [Symbol.asyncDispose]: () => simulator[Symbol.asyncDispose](),
  };
}

function answerTo({ messages }: SimulatedRequest): Reply {
  const { task, step } = placeInChain(messages.map(({ role, text }) => ({ role, text })));
  const calls = step < task.steps ? task.calls : 0;
  return {
    text: DELTA.repeat(task.deltas),
    chunkDelayMs: task.deltaPauseMs,
    toolCalls: Array.from({ length: calls }, (_, no) => ({
      id: `call_${step}_${no}`,
      name: 'look',
      input: { path: `src/part-${step}/file-${no}.ts`, chars: task.outputChars },
    })),
  };
}
