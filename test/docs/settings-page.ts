import { z } from 'zod';
import { SETTING_GROUPS } from '../../src/platform/settings.ts';

const INTRODUCTION = `# Settings

<!-- Generated from src/platform/settings.ts by \`npm run generate\`. -->

A setting is an environment variable, or a name in the YAML or JSON file that \`BATON_CONFIG\` names.
The environment overrides the file.
A program passes settings to \`createBaton\` by their names ([library](library.md)).
An empty variable counts as unset.
An unknown \`BATON_\` variable or a bad value prevents the start, and the error names it.
Lists are separated by commas.
`;

const shapeSchema = z.looseObject({
  type: z.string().optional(),
  format: z.string().optional(),
  enum: z.array(z.string()).optional(),
  const: z.string().optional(),
  default: z.unknown().optional(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  anyOf: z.array(z.unknown()).optional(),
});

/** docs/settings.md: every setting with its variable, default, bounds and meaning. */
export function settingsPage(): string {
  const groups = Object.entries(SETTING_GROUPS).map(([title, settings]) => {
    const rows = Object.entries(settings).map(([name, schema]) => rowOf(name, schema));
    return `\n## ${title}\n\n| variable | name | default | values | meaning |\n|---|---|---|---|---|\n${rows.join('\n')}\n`;
  });
  return INTRODUCTION + groups.join('');
}

function rowOf(name: string, schema: z.ZodType): string {
  const { variable, description = '' } = schema.meta() ?? {};
  const shape = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' });
  const cells = [
    `\`${variable}\``,
    `\`${name}\``,
    defaultOf(shape),
    valuesOf(shape),
    description.replaceAll('|', '\\|'),
  ];
  return `| ${cells.join(' | ')} |`;
}

function defaultOf(shape: unknown): string {
  const { default: value } = shapeSchema.parse(shape);
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return '';
  return `\`${Array.isArray(value) ? value.join(',') : value}\``;
}

function valuesOf(shape: unknown): string {
  const parsed = shapeSchema.parse(shape);
  if (parsed.anyOf !== undefined) return [...new Set(parsed.anyOf.map(valuesOf))].join(' or ');
  if (parsed.const !== undefined) return `\`${parsed.const}\``;
  if (parsed.enum !== undefined) return parsed.enum.map((value) => `\`${value}\``).join(', ');
  if (parsed.format === 'uri') return 'URL';
  if (parsed.type === 'boolean') return '`true` or `false`';
  if (parsed.type === 'array') return 'list';
  if (parsed.minimum === undefined) return 'text';
  const { minimum, maximum } = parsed;
  return maximum === undefined || maximum === Number.MAX_SAFE_INTEGER
    ? `${minimum} or more`
    : `${minimum} to ${maximum}`;
}
