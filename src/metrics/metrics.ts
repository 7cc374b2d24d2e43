import { Registry } from 'prom-client';
import type { Log } from '../platform/log.ts';
import { createHttpInstruments, type HttpInstruments } from './http-instruments.ts';
import { createLogInstruments } from './log-instruments.ts';

export type MetricsSource = Readonly<{
  registry: Registry;
  /** Updates the values before they are read. Never rejects. */
  refresh?: () => Promise<void>;
}>;

export type Metrics = Readonly<{
  http: HttpInstruments;
  /** A log that also counts its events. */
  counting: (log: Log) => Log;
  /** Shows another source as well, until it is disposed. */
  add: (source: MetricsSource) => Disposable;
  /** The text format of Prometheus, version 0.0.4. */
  text: () => Promise<string>;
}>;

/** The instruments of one process, without shared state: two in one process do not see each other. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const observe = createLogInstruments(registry);
  const sources = new Set<MetricsSource>([{ registry }]);
  return {
    http: createHttpInstruments(registry),
    counting: (log) => (level, event) => {
      observe(level, event);
      log(level, event);
    },
    add(source) {
      sources.add(source);
      return { [Symbol.dispose]: () => void sources.delete(source) };
    },
    async text() {
      await Promise.all([...sources].map((source) => source.refresh?.()));
      const texts = await Promise.all([...sources].map((source) => source.registry.metrics()));
      return texts.join('');
    },
  };
}
