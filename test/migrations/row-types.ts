import pg from 'pg';
import { formatted } from '../support/formatted.ts';

export const ROW_TYPES_FILE = 'src/store/db/tables.ts';

const HEADER = `// The rows of the migrated schema. Written by "npm run schema:dump"; never change it here. migrations/ explains the columns.
import type { ColumnType, Generated } from 'kysely';
import type { DefaultJson, DefaultTime, Json, Time } from './table-columns.ts';
`;

/** What a JSON column holds, where that is not an object with any fields. */
const JSON_VALUES: Readonly<Record<string, string>> = {
  'inbox.content': 'unknown[]',
  'inbox.limits': 'unknown',
  'inbox.lowered': 'unknown',
  'inbox.output': 'unknown',
  'inbox.webhook': 'unknown',
  'parts.earlier_view_limits': 'unknown',
  'parts.outside_work': 'unknown',
  'runs.output': '{ value: unknown }',
  'runs.output_state': 'unknown',
  'sessions.drifted_tools': 'Record<string, string>',
  'sessions.metadata': 'Record<string, string>',
  'sessions.requested_resume': 'unknown',
};

/** Columns that only SQL functions change. */
const NEVER_UPDATED: ReadonlySet<string> = new Set(['runs.status']);

/** `check`: the values that a domain or a constraint of this column alone allows. */
type Column = Readonly<{
  table: string;
  name: string;
  type: string;
  isArray: boolean;
  isNullable: boolean;
  hasDefault: boolean;
  isGenerated: boolean;
  check: string | null;
}>;

const COLUMNS = `
  select c.relname as "table", a.attname as name, coalesce(nullif(e.typname, ''), b.typname, y.typname) as type,
    e.oid is not null as "isArray", not a.attnotnull as "isNullable", d.oid is not null as "hasDefault",
    a.attgenerated <> '' as "isGenerated", (select pg_get_constraintdef(k.oid) from pg_constraint k
      where k.contype = 'c' and (k.contypid = y.oid and y.typtype = 'd' or k.conrelid = c.oid and k.conkey = array[a.attnum])
        and pg_get_constraintdef(k.oid) ~ 'ARRAY\\[' limit 1) as "check"
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type y on y.oid = a.atttypid
  left join pg_type b on b.oid = y.typbasetype
  left join pg_type e on e.oid = y.typelem and y.typcategory = 'A'
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname not like 'kysely\\_%'
  order by c.relname collate "C", a.attnum`;

const SCALARS: Readonly<Record<string, string>> = {
  bool: 'boolean',
  bytea: 'Buffer',
  float8: 'number',
  int2: 'number',
  int4: 'number',
  int8: 'number',
  text: 'string',
  tsvector: 'string',
  uuid: 'string',
};
const TIMES: ReadonlySet<string> = new Set(['date', 'timestamptz']);
const JSONS: ReadonlySet<string> = new Set(['json', 'jsonb']);

/** The types of the rows of a database, as a TypeScript file. @throws Error for a column whose type has no counterpart */
export async function rowTypes(connectionString: string): Promise<string> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    const { rows } = await client.query<Column>(COLUMNS);
    const tables = [...Map.groupBy(rows, ({ table }) => table)].map(
      ([table, columns]) => `${table}: {\n${columns.map((each) => `${each.name}: ${typeOf(each)};`).join('\n')}\n};`,
    );
    return formatted(ROW_TYPES_FILE, `${HEADER}\nexport type Tables = {\n${tables.join('\n')}\n};\n`);
  } finally {
    await client.end();
  }
}

function typeOf(column: Column): string {
  const { isNullable, hasDefault, isGenerated } = column;
  const orNull = isNullable ? ' | null' : '';
  const read = `${readType(column)}${orNull}`;
  if (isGenerated) return `ColumnType<${read}, never, never>`;
  if (NEVER_UPDATED.has(keyOf(column))) return `ColumnType<${read}, ${read} | undefined, never>`;
  const isOptional = hasDefault && !isNullable;
  if (TIMES.has(column.type)) return isOptional ? 'DefaultTime' : `Time${orNull}`;
  if (JSONS.has(column.type)) return `${isOptional ? 'DefaultJson' : 'Json'}<${readType(column)}>${orNull}`;
  return isOptional || (hasDefault && isNullable) ? `Generated<${read}>` : read;
}

const keyOf = ({ table, name }: Column): string => `${table}.${name}`;

function readType(column: Column): string {
  const { type, isArray, check } = column;
  if (TIMES.has(type)) return 'Date';
  if (JSONS.has(type)) return JSON_VALUES[keyOf(column)] ?? 'Record<string, unknown>';
  const values = type === 'text' && check !== null ? [...check.matchAll(/'([^']*)'::text/g)] : [];
  const union = values.map(([, value]) => `'${value}'`).join(' | ');
  const scalar = union === '' ? SCALARS[type] : union;
  if (scalar === undefined) throw new Error(`${keyOf(column)} has the type ${type}, which has no counterpart`);
  return isArray ? `(${scalar})[]` : scalar;
}
