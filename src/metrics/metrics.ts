import { AggregatorRegistry, Gauge, type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client';
import { arrivingBytes } from '../platform/arriving-bytes.ts';
import type { Log } from '../platform/log.ts';
import { createHttpInstruments, type HttpInstruments } from './http-instruments.ts';
import { createLogInstruments } from './log-instruments.ts';

/** The metrics of a registry as values, as they are sent to another process. */
export type MetricValues = readonly MetricObjectWithValues<MetricValue<string>>[];

export type MetricsSource = Readonly<{
  registry: Registry;
  /** The metrics of other processes, which are shown beside those of this one. Never rejects. */
  others?: () => Promise<readonly MetricValues[]>;
  /** Updates the values before they are read. Never rejects. */
  refresh?: () => Promise<void>;
}>;

export type Metrics = Readonly<{
  http: HttpInstruments;
  /** A log that also counts its events. */
  counting: (log: Log) => Log;
  /** Shows another source as well, until it is disposed. */
  add: (source: MetricsSource) => Disposable;
  /** The text format of Prometheus, version 0.0.4, with the metrics of other processes. */
  text: () => Promise<string>;
  /** The metrics of this process. */
  values: () => Promise<MetricValues>;
}>;

/** The instruments of one process, without shared state: two in one process do not see each other. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  new Gauge({
    name: 'baton_tool_result_bytes',
    help: 'Bytes that large results of tools take on this process until they are stored.',
    registers: [registry],
    collect() {
      this.set(arrivingBytes.heldBytes());
    },
  });
  const observe = createLogInstruments(registry);
  const sources = new Set<MetricsSource>([{ registry }]);
  const values = async (): Promise<MetricValues> => {
    await Promise.all([...sources].map((source) => source.refresh?.()));
    return (await Promise.all([...sources].map((source) => source.registry.getMetricsAsJSON()))).flat();
  };
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
      const own = await values();
      const others = await Promise.all([...sources].map((source) => source.others?.() ?? []));
      // No two processes have a series of the same labels, so a sum changes no value; other aggregators would omit some.
      const summed = [own, ...others.flat()].map((metrics) =>
        metrics.map((metric) => ({ ...metric, aggregator: 'sum' })),
      );
      return AggregatorRegistry.aggregate(summed).metrics();
    },
    values,
  };
}
