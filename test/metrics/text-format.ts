/**
 * The text format of Prometheus, read strictly, and the rules of `promtool check metrics`.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 */
type Sample = Readonly<{ name: string; labels: Readonly<Record<string, string>>; value: number }>;
export type Family = Readonly<{ name: string; help: string; type: string; samples: readonly Sample[] }>;

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)?,?\\})? (\\S+)$`);
const TYPES = ['counter', 'gauge', 'histogram', 'summary', 'untyped'];

type OpenFamily = { name: string; help: string; type: string; samples: Sample[] };

/** @throws Error that names the line that breaks a rule of the format */
export function parseMetrics(text: string): ReadonlyMap<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const families = new Map<string, OpenFamily>();
  const seen = new Set<string>();
  let current: OpenFamily | undefined;
  for (const line of text.split('\n').filter((candidate) => candidate !== '')) {
    if (line.startsWith('#')) {
      current = readComment(line, current, families);
      continue;
    }
    const sample = readSample(line);
    refuse(current === undefined || !belongsTo(sample.name, current), 'a sample outside of its family', line);
    const key = `${sample.name}${JSON.stringify(Object.entries(sample.labels).toSorted())}`;
    refuse(seen.has(key), 'a series comes twice', line);
    seen.add(key);
    current?.samples.push(sample);
  }
  for (const family of families.values()) if (family.type === 'histogram') checkHistogram(family);
  return families;
}

function refuse(isBroken: boolean, rule: string, line: string): void {
  if (isBroken) throw new Error(`${rule}: ${line}`);
}

/** A family begins with its help; its type comes next, once, and before its samples. */
function readComment(line: string, current: OpenFamily | undefined, families: Map<string, OpenFamily>): OpenFamily {
  const [, kind, name = '', rest = ''] = new RegExp(`^# (HELP|TYPE) (${NAME})(?: (.*))?$`).exec(line) ?? [];
  if (kind === 'HELP') {
    refuse(families.has(name), 'a family comes twice', line);
    const family = { name, help: rest, type: '', samples: [] };
    families.set(name, family);
    return family;
  }
  const isInPlace = kind === 'TYPE' && current?.name === name && current.type === '';
  if (!isInPlace || !TYPES.includes(rest)) throw new Error(`not a type in its place: ${line}`);
  current.type = rest;
  return current;
}

function readSample(line: string): Sample {
  const [, name, labelText = '', valueText = ''] = SAMPLE.exec(line) ?? [];
  if (name === undefined) throw new Error(`not a sample: ${line}`);
  const value = toValue(valueText);
  refuse(Number.isNaN(value) && !/^nan$/i.test(valueText), 'not a number', line);
  return { name, labels: toLabels(labelText, line), value };
}

function toValue(text: string): number {
  if (text === '+Inf' || text === 'Inf') return Number.POSITIVE_INFINITY;
  if (text === '-Inf') return Number.NEGATIVE_INFINITY;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
}

function toLabels(text: string, line: string): Record<string, string> {
  const pairs = [...text.matchAll(new RegExp(LABEL, 'g'))].map(([pair]) => {
    const at = pair.indexOf('=');
    return [pair.slice(0, at), JSON.parse(pair.slice(at + 1))] as [string, string];
  });
  const labels = Object.fromEntries(pairs);
  refuse(Object.keys(labels).length !== pairs.length, 'a label comes twice', line);
  return labels;
}

function belongsTo(name: string, { name: family, type }: Pick<Family, 'name' | 'type'>): boolean {
  if (type === 'histogram') return ['_bucket', '_sum', '_count'].some((suffix) => name === family + suffix);
  if (type === 'summary') return [family, `${family}_sum`, `${family}_count`].includes(name);
  return type !== '' && name === family;
}

/** Each series has buckets in rising order up to `+Inf`, whose value is the count of the series. */
function checkHistogram({ name, samples }: Family): void {
  const series = Map.groupBy(samples, ({ labels: { le: _le, ...labels } }) => JSON.stringify(labels));
  for (const [labels, ofSeries] of series) {
    const buckets = ofSeries.filter((sample) => sample.name.endsWith('_bucket'));
    const bounds = buckets.map((bucket) => toValue(bucket.labels['le'] ?? ''));
    const counts = buckets.map(({ value }) => value);
    const count = ofSeries.find((sample) => sample.name === `${name}_count`)?.value;
    const isSorted = (numbers: readonly number[]) => numbers.every((n, i) => i === 0 || n >= (numbers[i - 1] ?? 0));
    const isWhole = bounds.at(-1) === Number.POSITIVE_INFINITY && counts.at(-1) === count;
    const hasSum = ofSeries.some((sample) => sample.name === `${name}_sum`);
    if (!isSorted(bounds) || !isSorted(counts) || !isWhole || !hasSum) throw new Error(`a broken ${name}${labels}`);
  }
}

const SHORT_UNITS = ['s', 'ms', 'us', 'ns', 'sec', 'b', 'kb', 'mb', 'gb', 'm', 'h', 'd'];
const OTHER_UNITS = [
  'milliseconds',
  'microseconds',
  'nanoseconds',
  'minutes',
  'hours',
  'days',
  'kilobytes',
  'megabytes',
];

type Rule = readonly [problem: string, isBroken: (family: Family, words: readonly string[]) => boolean];

/** The rules of `promtool check metrics`. */
const RULES: readonly Rule[] = [
  ['no help text', ({ help }) => help.trim() === ''],
  ['a counter ends in _total', ({ type, name }) => type === 'counter' && !name.endsWith('_total')],
  ['only a counter ends in _total', ({ type, name }) => type !== 'counter' && name.endsWith('_total')],
  ['names are in snake_case', (family) => [family.name, ...labelsOf(family)].some((name) => /[A-Z]/.test(name))],
  ['a colon is for recording rules', ({ name }) => name.includes(':')],
  ['the type is no part of a name', (_family, words) => TYPES.some((type) => words.includes(type))],
  ['units are written out', (_family, words) => words.some((word) => SHORT_UNITS.includes(word))],
  ['only base units', (_family, words) => words.some((word) => OTHER_UNITS.includes(word))],
  ['a reserved end', ({ type, name }) => !/^(histogram|summary)$/.test(type) && /_(count|sum|bucket)$/.test(name)],
];

const labelsOf = ({ samples }: Family): string[] => samples.flatMap(({ labels }) => Object.keys(labels));

/** The complaints that `promtool check metrics` would make about these families. */
export function lintMetrics(families: Iterable<Family>): string[] {
  return [...families].flatMap((family) =>
    RULES.filter(([, isBroken]) => isBroken(family, family.name.split('_'))).map(([rule]) => `${family.name}: ${rule}`),
  );
}

/** The sum of the samples with these labels; 0 where there is none. */
export function sumOf(
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ''));
  if (family === undefined) throw new Error(`no metric ${name}`);
  return family.samples
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0);
}
