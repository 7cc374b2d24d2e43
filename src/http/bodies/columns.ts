/** The name of a field in the form of columns: `jitterMs` is `jitter_ms`. */
type Snake<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : Name;

/** Columns whose names differ from those of their fields. */
type Renamed = Readonly<Record<string, string>>;
type ColumnOf<Field extends string, Names extends Renamed> = Field extends keyof Names ? Names[Field] : Snake<Field>;

const columnOf = (field: string, renamed: Renamed): string =>
  renamed[field] ?? field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

type Columns<Fields extends object, Names extends Renamed> = {
  [Field in keyof Fields & string as ColumnOf<Field, Names>]: Fields[Field];
};

/** The fields of a body as columns, so that a field is named by its schema and its migration alone. */
export function toColumns<Fields extends object, Names extends Renamed>(
  fields: Fields,
  renamed: Names,
): Columns<Fields, Names> {
  const entries = Object.entries(fields).map(([field, value]) => [columnOf(field, renamed), value]);
  return Object.fromEntries(entries) as Columns<Fields, Names>;
}

/** The other way round: the columns of a row as fields of a body, by the names of these. */
export function fromColumns<Row extends object, Field extends string, Names extends Renamed>(
  row: Row,
  fields: readonly Field[],
  renamed: Names,
): { [Each in Field]: Row[ColumnOf<Each, Names> & keyof Row] } {
  const columns = new Map(Object.entries(row));
  const entries = fields.map((field) => [field, columns.get(columnOf(field, renamed))]);
  return Object.fromEntries(entries) as { [Each in Field]: Row[ColumnOf<Each, Names> & keyof Row] };
}
