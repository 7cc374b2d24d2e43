import { parseArgs } from 'node:util';
import { listCases, readCase } from '../../cases/case-file.ts';
import { openCaseService } from '../../cases/case-service.ts';
import { compareWork, type ForkResult, forkCase } from '../../cases/fork-case.ts';
import { cleanerFor } from '../../cases/shown-request.ts';
import { type CaseResult, testCase } from '../../cases/test-case.ts';
import { EXIT, UsageError } from '../exit-codes.ts';
import { wholeNumber, writeJson, writeLine } from '../remote.ts';
import { count, oneLine, printable, seconds } from '../terminal/words.ts';

export const usage = `baton test [options] FILE|FOLDER…

Plays recorded cases again with the agents as they are now, without a key and without a network: models and tools answer as
recorded. A case fails where the model is shown other instructions, tools or messages, or where a call or its result is
another one.

  --live-tools      the agents' own tools run, in BATON_WORKSPACE_DIR, and their results are compared
  --from N          with --model: from the Nth step of the case on the model answers itself, for which its provider has to be
                    configured. Its tokens, cost, calls and output are put beside the recorded ones. A call that the
                    case has gets its recorded result; others need --live-tools
  --model MODEL     model to ask instead: provider/model
  --agents FOLDER   folder of the agents (default: BATON_AGENTS_DIR)
  --database URL    an empty Postgres database (default: an embedded one, which is removed)
  --json            a line of JSON for each case, for programs

Exit code 1 where a case fails, or the run of another model does not complete.`;

/** Of the differences of one case that are shown. */
const SHOWN_DIFFERENCES = 20;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      'live-tools': { type: 'boolean', default: false },
      from: { type: 'string' },
      model: { type: 'string' },
      agents: { type: 'string' },
      database: { type: 'string' },
      json: { type: 'boolean', default: false },
    },
  });
  if (positionals.length === 0) throw new UsageError('The file or folder of cases is missing.');
  const files = await listCases(positionals);
  const fork = forkOf(values);
  const options = {
    databaseUrl: values.database,
    agentsDir: values.agents,
    liveTools: values['live-tools'],
    liveModel: fork?.model,
  };
  await using service = await openCaseService(environment, options);
  if (fork !== null) return await forkAll(service, files, fork, values.json);
  const clean = cleanerFor(environment);
  let failed = 0;
  for (const file of files) {
    const result = await testCase(service, await readCase(file), clean);
    if (result.differences.length > 0) failed += 1;
    if (values.json) writeJson({ file, ...result });
    else writeLine(describe(file, result));
  }
  if (!values.json)
    writeLine(
      failed === 0 ? `${count(files.length, 'case')} passed` : `${failed} of ${count(files.length, 'case')} failed`,
    );
  return failed === 0 ? EXIT.done : EXIT.failed;
}

type Fork = Parameters<typeof forkCase>[2];
type Service = Parameters<typeof forkCase>[0];

/** @throws UsageError for one of both options alone */
function forkOf({
  from: fromText,
  model,
}: Readonly<{ from?: string | undefined; model?: string | undefined }>): Fork | null {
  const from = wholeNumber('--from', fromText);
  if (from === undefined && model === undefined) return null;
  if (from === undefined || model === undefined) throw new UsageError('--from and --model go together.');
  if (!/^[a-z0-9-]+\/.+$/.test(model)) throw new UsageError(`--model takes provider/model, not ${model}.`);
  return { from, model };
}

async function forkAll(service: Service, files: readonly string[], fork: Fork, isJson: boolean): Promise<number> {
  let failed = 0;
  for (const file of files) {
    const result = await forkCase(service, await readCase(file), fork);
    if (result.now.end !== 'completed') failed += 1;
    if (isJson) writeJson({ file, ...result });
    else writeLine(describeFork(file, result));
  }
  return failed === 0 ? EXIT.done : EXIT.failed;
}

const COLUMN_CHARS = 40;

function describeFork(file: string, result: ForkResult): string {
  const lines = compareWork(result).map(([name, was, is]) => {
    const [left, right] = [was, is].map((text) => oneLine(text, COLUMN_CHARS));
    return `  ${name.padEnd(14)} ${left?.padEnd(COLUMN_CHARS)} ${right}`.trimEnd();
  });
  return [printable(`${file}: ${result.name}, from step ${result.from}`), ...lines].join('\n');
}

function describe(file: string, { name, steps, calls, differences, durationMs }: CaseResult): string {
  const facts = `${count(steps, 'step')}, ${count(calls, 'call')} in ${seconds(durationMs)}`;
  if (differences.length === 0) return printable(`✓ ${file}: ${name}, ${facts}`);
  const excerpt = differences.slice(0, SHOWN_DIFFERENCES).map(({ step, what, recorded, now }) => {
    const place = step === 0 ? what : `step ${step}, ${what}`;
    return `  ${place}\n    recorded  ${indent(recorded)}\n    now       ${indent(now)}`;
  });
  const more = differences.length - excerpt.length;
  const rest = more > 0 ? [`  … and ${more} more`] : [];
  return printable(
    [`✗ ${file}: ${name}, ${count(differences.length, 'difference')}, ${facts}`, ...excerpt, ...rest].join('\n'),
  );
}

const indent = (text: string): string => text.replaceAll('\n', `\n${' '.repeat(14)}`);
