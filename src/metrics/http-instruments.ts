import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type AnsweredRequest = Readonly<{
  method: string;
  /** The pattern of the route, not the path of the request. */
  route: string;
  status: number;
  durationMs: number;
}>;

export type HttpInstruments = Readonly<{
  answered: (request: AnsweredRequest) => void;
  /** Counts a reader of a session until it is disposed. */
  readerJoined: () => Disposable;
  /** Shows the bytes of bodies that are held. */
  measureBodies: (heldBytes: () => number) => void;
  /** Shows the bytes of answers that clients have not taken. */
  measureAnswers: (heldBytes: () => number) => void;
}>;

const DURATION_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** A client may send any word as a method: others are counted together. */
const METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS'];

export function createHttpInstruments(registry: Registry): HttpInstruments {
  const registers = [registry];
  const requests = new Counter({
    name: 'baton_http_requests_total',
    help: 'HTTP requests by method, pattern of the route and status of the answer.',
    labelNames: ['method', 'route', 'status'] as const,
    registers,
  });
  const duration = new Histogram({
    name: 'baton_http_request_duration_seconds',
    help: 'Time until an answer began; that of an event stream begins at once.',
    labelNames: ['method', 'route'] as const,
    buckets: DURATION_BUCKETS_S,
    registers,
  });
  const readers = new Gauge({
    name: 'baton_sse_readers',
    help: 'Readers that follow a session on this process.',
    registers,
  });
  let bodyBytes = (): number => 0;
  new Gauge({
    name: 'baton_http_body_bytes',
    help: 'Bytes that the bodies of requests take or have reserved on this process.',
    registers,
    collect() {
      this.set(bodyBytes());
    },
  });
  let answerBytes = (): number => 0;
  new Gauge({
    name: 'baton_http_answer_bytes',
    help: 'Bytes of answers and streams on this process that clients have not taken.',
    registers,
    collect() {
      this.set(answerBytes());
    },
  });
  return {
    measureAnswers(heldBytes) {
      answerBytes = heldBytes;
    },
    measureBodies(heldBytes) {
      bodyBytes = heldBytes;
    },
    answered({ method: word, route, status, durationMs }) {
      const method = METHODS.includes(word) ? word : 'other';
      requests.inc({ method, route, status: String(status) });
      duration.observe({ method, route }, durationMs / 1000);
    },
    readerJoined() {
      readers.inc();
      let isGone = false;
      return {
        [Symbol.dispose]() {
          if (!isGone) readers.dec();
          isGone = true;
        },
      };
    },
  };
}
