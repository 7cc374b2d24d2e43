import type { Reply } from './reply.ts';
import type { SimulatedRequest, SimulatedTool } from './request.ts';
import { parseJson } from './wire.ts';
import { inputText, type Observation, viewTask } from './workspace-observations.ts';
import { workspaceScript } from './workspace-script.ts';
import { quote } from './workspace-words.ts';

/** Tasks that are given at the same time. */
const MAX_PARTS = 3;

/** The simulated model of any agent: one that can give tasks to another one leads, any other does the work itself. */
export function agentScript(request: SimulatedRequest): Reply {
  const helper = request.toolChoice === 'none' ? undefined : request.tools.find(takesTask);
  return helper === undefined ? workspaceScript(request) : leadScript(request, helper.name);
}

/** Whether the tool begins the session of another agent: its input has a `task` and a `session`. */
function takesTask({ inputSchema }: SimulatedTool): boolean {
  const properties = Object(Object(inputSchema).properties);
  return 'task' in properties && 'session' in properties;
}

/** A pure function of the request: it gives out all parts of the task in one answer, then reports the results. */
function leadScript({ messages }: SimulatedRequest, helper: string): Reply {
  const view = viewTask(messages);
  const results = view.observations.filter(({ tool }) => tool === helper);
  if (results.length > 0) return { text: closingWords(view.task, results) };
  const parts = partsOf(view.task);
  return {
    reasoning: 'These parts can be answered without each other, so others look into all of them at the same time.',
    text: `I split “${quote(view.task)}” into ${parts.length} parts and give each to a ${helper} of its own.`,
    toolCalls: parts.map((task, index) => ({
      id: `call_part_${messages.length}_${index}`,
      name: helper,
      input: { task },
    })),
  };
}

/** The questions of a task. A task with fewer than two is looked at from three sides. */
function partsOf(task: string): string[] {
  const questions = (task.match(/[^.?!:\n]+\?/g) ?? []).map((question) => question.trim());
  if (questions.length > 1) return questions.slice(0, MAX_PARTS);
  const text = quote(task, 1_000);
  return [`What is written down about this? ${text}`, `Where does it happen? ${text}`, `What checks it? ${text}`];
}

function closingWords(task: string, results: readonly Observation[]): string {
  const findings = results.map((result, index) => `${index + 1}. ${inputText(result, 'task')}\n${foundIn(result)}`);
  return [`Here is what came back for “${quote(task)}”.`, ...findings].join('\n\n');
}

/** The paragraph of a helper's answer that has lines of files, or the beginning of the answer if there is none. */
function foundIn({ output }: Observation): string {
  const value = Object(parseJson(output)?.value);
  if (typeof value.answer !== 'string') return `It ended as ${value.status ?? 'unknown'}: ${quote(output)}`;
  const paragraphs = value.answer.split('\n\n');
  return paragraphs.find((paragraph: string) => paragraph.includes(' occurs in ')) ?? quote(value.answer, 400);
}
