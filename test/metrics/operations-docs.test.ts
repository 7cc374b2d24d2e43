import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import { createMetrics } from '../../src/metrics/metrics.ts';
import { createStateGauges } from '../../src/metrics/state-gauges.ts';
import { openDatabase } from '../../src/store/db/database.ts';
import { parseMetrics } from './text-format.ts';

const read = (file: string): string => readFileSync(new URL(`../../docs/${file}`, import.meta.url), 'utf8');

/** Names that a metric is queried by, with the name of the metric. A histogram has several. */
const known = new Map<string, string>();

beforeAll(async () => {
  // Without a database or a queue the gauges have their names and no values.
  await using db = withDispose(openDatabase({ connectionString: 'postgres://127.0.0.1:9/none' }));
  const away = () => Promise.reject(new Error('away'));
  const metrics = createMetrics();
  metrics.add(createStateGauges({ db, jobs: { counts: away }, log: () => undefined }));
  for (const { name, type } of parseMetrics(await metrics.text()).values()) {
    known.set(name, name);
    if (type === 'histogram') for (const end of ['bucket', 'sum', 'count']) known.set(`${name}_${end}`, name);
  }
});

function withDispose(db: ReturnType<typeof openDatabase>) {
  return Object.assign(db, { [Symbol.asyncDispose]: () => db.destroy() });
}

const namesIn = (text: string): string[] => [...new Set([...text.matchAll(/\bbaton_[a-z_]+/g)].map(([name]) => name))];

const dashboardSchema = z.looseObject({
  title: z.string(),
  schemaVersion: z.int(),
  templating: z.strictObject({
    list: z.array(
      z.looseObject({ name: z.string(), query: z.union([z.string(), z.looseObject({ query: z.string() })]) }),
    ),
  }),
  panels: z
    .array(
      z.looseObject({
        id: z.int(),
        title: z.string().min(1),
        type: z.enum(['timeseries', 'stat']),
        gridPos: z.strictObject({ x: z.int(), y: z.int(), w: z.int(), h: z.int() }),
        targets: z.array(z.looseObject({ refId: z.string(), expr: z.string(), legendFormat: z.string() })).min(1),
      }),
    )
    .min(1),
});

describe('the dashboard', () => {
  const { panels, templating } = dashboardSchema.parse(JSON.parse(read('grafana-dashboard.json')));

  test('asks only for metrics that there are, a histogram by its buckets', () => {
    const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
    const unknown = expressions.flatMap((expr) => namesIn(expr).filter((name) => !known.has(name)));
    expect(unknown).toEqual([]);
    for (const expr of expressions) {
      expect(namesIn(expr), expr).not.toEqual([]);
      expect(expr.includes('histogram_quantile'), expr).toBe(/_bucket\{[^}]*\}\[/.test(expr));
      expect([...expr.matchAll(/[()]/g)].length % 2, expr).toBe(0);
    }
  });

  test('has variables for job, instance and agent, and every panel uses those that its metrics have', () => {
    const names = templating.list.map(({ name }) => name);
    expect(names).toEqual(['datasource', 'job', 'instance', 'agent']);
    const queries = templating.list.flatMap(({ query }) => (typeof query === 'string' ? [] : namesIn(query.query)));
    expect(queries.filter((name) => !known.has(name))).toEqual([]);
    const text = read('operations.md');
    for (const expr of panels.flatMap(({ targets }) => targets.map((target) => target.expr))) {
      for (const [, name = '', labels = ''] of expr.matchAll(/\b(baton_[a-z_]+)(?:\{([^}]*)\})?/g)) {
        const row = text.split('\n').find((line) => line.startsWith(`| \`${known.get(name)}\` |`)) ?? '';
        const isState = row.includes('*state*');
        expect(labels, expr).toContain('job=~"$job"');
        expect(labels.includes('instance=~"$instance"'), expr).toBe(!isState);
        expect(labels.includes('agent=~"$agent"'), expr).toBe(row.split('|')[2]?.includes('`agent`') === true);
      }
    }
  });

  test('has panels that do not overlap, each with an id of its own', () => {
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    expect(panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
  });
});

const rulesSchema = z.strictObject({
  groups: z.tuple([
    z.strictObject({
      name: z.literal('baton'),
      rules: z
        .array(
          z.strictObject({
            alert: z.string().regex(/^Baton[A-Z]\w+$/),
            expr: z.string(),
            for: z.string().regex(/^\d+m$/),
            labels: z.strictObject({ severity: z.enum(['warning', 'critical']) }),
            annotations: z.strictObject({ summary: z.string() }),
          }),
        )
        .min(1),
    }),
  ]),
});

describe('the alerts', () => {
  const { rules } = rulesSchema.parse(parseYaml(read('prometheus-alerts.yml'))).groups[0];

  test('ask only for metrics that there are', () => {
    for (const { alert, expr } of rules) {
      expect(namesIn(expr), alert).not.toEqual([]);
      expect(
        namesIn(expr).filter((name) => !known.has(name)),
        alert,
      ).toEqual([]);
    }
  });

  test('are those of the table, word for word', () => {
    const wait = (duration: string) => (duration === '0m' ? 'at once' : duration.replace('m', ' min'));
    const rows = [...read('operations.md').matchAll(/^\| `(Baton\w+)` \| `(.*)` \| (.*) \| (.*) \|$/gm)];
    expect(
      rows.map(([, alert, expr = '', after, summary]) => [alert, expr.replaceAll('\\|', '|'), after, summary]),
    ).toEqual(rules.map((rule) => [rule.alert, rule.expr, wait(rule.for), rule.annotations.summary]));
  });
});

describe('docs/operations.md', () => {
  test('has every metric in its table, and none that there is not', () => {
    const text = read('operations.md');
    const listed = [...text.matchAll(/^\| `(baton_[a-z_]+)` \|/gm)].map(([, name = '']) => name);
    expect(listed.toSorted()).toEqual([...new Set(known.values())].toSorted());
    expect(namesIn(text).filter((name) => !known.has(name))).toEqual([]);
  });
});
