// The neighbour, in a process of its own, so that neither the suite nor the attacker delays its clock.
import { answerParent } from '../../../bench/process/asked.ts';
import type { Question, Samples } from './neighbour.ts';
import { createRequests, type Kept, keepPace, type Neighbour, REQUEST_KINDS } from './requests.ts';

type Measuring = Readonly<{ stop: () => Promise<Samples> }>;

const kept: Kept = { sessions: [], taken: [] };
let measuring: Measuring | null = null;

answerParent<Question, Samples | Kept | null>(async (question) => {
  if (question.what === 'kept') return kept;
  if (question.what === 'start') {
    measuring = measure(question.neighbour);
    return null;
  }
  const stopped = measuring;
  measuring = null;
  return stopped === null ? null : stopped.stop();
});

function measure(neighbour: Neighbour): Measuring {
  const requests = createRequests(neighbour, kept);
  const stop = new AbortController();
  const open = new Set<Promise<void>>();
  const none = (): { tookMs: number[]; failures: string[] } => ({ tookMs: [], failures: [] });
  const samples = { read: none(), create: none(), run: none() };
  const pacing = REQUEST_KINDS.map((kind) =>
    keepPace(() => {
      const startedAtMs = performance.now();
      const { tookMs, failures } = samples[kind];
      const asked = requests[kind]()
        .catch((error: unknown) => void failures.push(reasonOf(error)))
        .then(() => {
          tookMs.push(performance.now() - startedAtMs);
          open.delete(asked);
        });
      open.add(asked);
    }, stop.signal),
  );
  return {
    async stop() {
      stop.abort();
      await Promise.all(pacing);
      await Promise.all(open);
      return samples;
    },
  };
}

/** The message of the innermost cause: a failed fetch hides its reason there. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
