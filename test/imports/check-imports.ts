import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type EcmaScriptModule, type Expression, type Program, parseSync, Visitor } from 'oxc-parser';
import { EFFECTS, FLOORS, LIBRARIES, READERS, READING, WRITES_OF_READERS } from './floors.ts';

type Imports = Readonly<{
  local: readonly string[];
  libraries: readonly string[];
  effects: readonly Effect[];
  /** Names of values that the file takes from a room of the store. */
  writes: readonly string[];
}>;

/** A call and the places that may make it. */
type Effect = Readonly<{ call: string; places: readonly string[] }>;

/**
 * Finds the imports that climb: from a folder to one that its row in `FLOORS` does not name, to a library that its row
 * in `LIBRARIES` does not name, and circles of files. Type imports count as any other. Also finds the calls of
 * `EFFECTS` in other places, and what a folder of `READERS` takes from the store to write.
 * @param root folder of the project
 * @returns a sentence per violation
 */
export function checkImports(root: string): readonly string[] {
  const tops = [...new Set(Object.keys(FLOORS).map((folder) => folder.split('/')[0]))];
  const files = tops.flatMap((top) => globSync(`${top}/**/*.ts`, { cwd: root }));
  const graph = new Map(files.map((file) => [file, readImports(root, file)]));
  return [...graph].flatMap(([file, imports]) => climbing(file, imports)).concat(circles(graph));
}

function readImports(root: string, file: string): Imports {
  const source = readFileSync(path.join(root, file), 'utf8');
  const { module, program } = parseSync(file, source);
  const named = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...module.staticExports.flatMap(({ entries }) => entries.flatMap((entry) => entry.moduleRequest?.value ?? [])),
    ...module.dynamicImports.flatMap(({ moduleRequest: { start, end } }) => literal(source.slice(start, end))),
  ];
  return {
    local: named.filter(isLocal).map((name) => path.join(path.dirname(file), name)),
    libraries: named.filter((name) => !isLocal(name)),
    effects: effectsIn(program, file),
    writes: READERS.some((folder) => isWithin(file, folder)) ? writesIn(file, module) : [],
  };
}

/** The values from the rooms of the store whose names do not say that they read. */
function writesIn(file: string, { staticImports }: EcmaScriptModule): string[] {
  const ofRooms = staticImports.filter(({ moduleRequest }) => {
    const imported = path.join(path.dirname(file), moduleRequest.value);
    return isWithin(imported, 'src/store') && !isWithin(imported, 'src/store/db');
  });
  return ofRooms
    .flatMap(({ entries }) => entries.filter(({ isType }) => !isType))
    .map(({ importName }) => importName.name ?? importName.kind)
    .filter((name) => !READING.test(name) && !(name in WRITES_OF_READERS));
}

const isLocal = (name: string): boolean => name.startsWith('.');

/** The calls of `EFFECTS` in a file that is none of their places. */
function effectsIn(program: Program, file: string): Effect[] {
  const refused = Object.entries(EFFECTS).filter(([, places]) => !places.some((place) => isWithin(file, place)));
  const found: Effect[] = [];
  new Visitor({
    CallExpression({ callee }) {
      const call = nameOf(callee);
      const [, places] = refused.find(([effect]) => `.${call}`.endsWith(`.${effect}`)) ?? [];
      if (places !== undefined) found.push({ call, places });
    },
  }).visit(program);
  return found;
}

/** The dotted name of what is called. Empty for any other expression. */
function nameOf(callee: Expression): string {
  if (callee.type === 'Identifier') return callee.name;
  if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return '';
  return `${nameOf(callee.object)}.${callee.property.name}`;
}

/** Empty for a module that is named by an expression. */
const literal = (code: string): string[] => /^(['"])(.*)\1$/.exec(code)?.slice(2) ?? [];

function climbing(file: string, { local, libraries, effects, writes }: Imports): readonly string[] {
  const from = floorOf(file);
  if (from === undefined) return [`${file} stands in a folder that has no floor: give it a row in floors.ts`];
  const climbs = local
    .filter((imported) => !mayImport(from, floorOf(imported)))
    .map(
      (imported) => `${file} imports ${imported}: ${from} may import ${FLOORS[from]?.join(', ') || 'no other folder'}`,
    );
  const allowed = Object.entries(LIBRARIES).find(([folder]) => isWithin(file, folder))?.[1];
  const foreign = libraries
    .filter((library) => allowed !== undefined && !allowed.includes(library))
    .map((library) => `${file} imports ${library}: of libraries it may import ${allowed?.join(', ') || 'none'}`);
  const own = effects.map(({ call, places }) => `${file} calls ${call}: only ${places.join(' and ')} may`);
  const written = writes.map((name) => `${file} imports ${name} of the store: a command of src/commands writes`);
  return [...climbs, ...foreign, ...own, ...written];
}

/** The innermost folder with a row that the file stands in. */
const floorOf = (file: string): string | undefined =>
  Object.keys(FLOORS)
    .filter((folder) => isWithin(file, folder))
    .sort((a, b) => b.length - a.length)[0];

const isWithin = (file: string, folder: string): boolean => file === folder || file.startsWith(`${folder}/`);

function mayImport(from: string, to: string | undefined): boolean {
  if (to === undefined) return false;
  if (from === to) return true;
  return (
    FLOORS[from]?.some((row) => row === to || (row.endsWith('/*') && `${to}/`.startsWith(row.slice(0, -1)))) ?? false
  );
}

/** A sentence for each group of files that import each other. Algorithm: Tarjan's strongly connected components. */
function circles(graph: ReadonlyMap<string, Imports>): readonly string[] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const found: string[] = [];
  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file) ?? 0);
    open.push(file);
    for (const next of graph.get(file)?.local ?? []) {
      if (!graph.has(next)) continue;
      if (!order.has(next)) visit(next);
      if (open.includes(next)) lowest.set(file, Math.min(lowest.get(file) ?? 0, lowest.get(next) ?? 0));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const circle = open.splice(open.indexOf(file));
    if (circle.length > 1) found.push(`these files import each other: ${circle.toSorted().join(', ')}`);
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return found;
}
