import type { NewSchedule, Schedule } from '@baton-run/server/client';
import { type ReactNode, useId, useState } from 'react';
import { client } from '../api.ts';
import { useSendOnce } from '../send-once.ts';
import { AgentSelect, FormDialog, FormField, type Problems } from '../ui/form-dialog.tsx';
import { useAgentNames } from './agent-names.ts';
import { ScheduleNotice } from './declared.tsx';

type Fields = Required<{ [Name in keyof NewSchedule]: NonNullable<NewSchedule[Name]> }>;

const NAMES = ['agent', 'cron', 'timezone', 'content', 'title', 'session', 'overlap', 'catchup', 'jitterMs'] as const;

/** The defaults of the service, but with the time zone of the reader. */
const EMPTY: Fields = {
  agent: '',
  cron: '0 9 * * 1-5',
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  content: '',
  title: '',
  session: 'new',
  overlap: 'skip',
  catchup: 'none',
  jitterMs: 0,
};

type Props = Readonly<{ schedule: Schedule | null; close: () => void; saved: (schedule: Schedule) => void }>;

/** Makes a schedule (null), or changes one. */
export function ScheduleForm({ schedule, close, saved }: Props): ReactNode {
  const [before] = useState<Fields>(() => (schedule === null ? EMPTY : { ...schedule, title: schedule.title ?? '' }));
  const [fields, set] = useState(before);
  const sendOnce = useSendOnce();
  const save = async (): Promise<void> => {
    if (schedule !== null) return saved(await client.schedules.update(schedule.id, changesOf(before, fields)));
    const given = { ...fields, title: titleOf(fields) };
    const create = (request: typeof given, idempotencyKey: string) =>
      client.schedules.create(request, { idempotencyKey });
    saved(await sendOnce(JSON.stringify(given), given, create));
  };
  return (
    <FormDialog
      title={schedule === null ? 'New schedule' : 'Change the schedule'}
      act={schedule === null ? 'Create' : 'Save'}
      fields={NAMES}
      submit={save}
      close={close}
    >
      {(problems) => (
        <>
          {schedule !== null && <ScheduleNotice schedule={schedule} />}
          <What fields={fields} change={(part) => set({ ...fields, ...part })} problems={problems} />
          <When fields={fields} change={(part) => set({ ...fields, ...part })} problems={problems} />
          <How fields={fields} change={(part) => set({ ...fields, ...part })} problems={problems} />
        </>
      )}
    </FormDialog>
  );
}

const titleOf = ({ title }: Fields): string | null => (title.trim() === '' ? null : title.trim());

/** The changed fields alone: another person may have changed the others meanwhile. */
function changesOf(before: Fields, after: Fields): Partial<NewSchedule> {
  const changed = NAMES.filter((name) => after[name] !== before[name]);
  return Object.fromEntries(changed.map((name) => [name, name === 'title' ? titleOf(after) : after[name]]));
}

type PartProps = Readonly<{ fields: Fields; change: (part: Partial<Fields>) => void; problems: Problems }>;

function What({ fields, change, problems }: PartProps): ReactNode {
  const agents = useAgentNames();
  return (
    <>
      <FormField label="Agent" problem={problems('agent')}>
        {(control) => (
          <AgentSelect
            control={control}
            none="Choose an agent"
            names={agents}
            value={fields.agent}
            change={(agent) => change({ agent })}
          />
        )}
      </FormField>
      <FormField label="Message" problem={problems('content')}>
        {(control) => (
          <textarea
            {...control}
            className="field max-h-[30vh] min-h-16 field-sizing-content"
            rows={3}
            dir="auto"
            value={fields.content}
            onChange={(event) => change({ content: event.target.value })}
          />
        )}
      </FormField>
      <FormField label="Title of the sessions that the schedule begins (optional)" problem={problems('title')}>
        {(control) => (
          <input
            {...control}
            className="field"
            dir="auto"
            value={fields.title}
            onChange={(event) => change({ title: event.target.value })}
          />
        )}
      </FormField>
    </>
  );
}

function When({ fields, change, problems }: PartProps): ReactNode {
  const zones = useId();
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <FormField
        label="Cron"
        problem={problems('cron')}
        hint={
          <>
            minute, hour, day, month, weekday: <span className="font-mono whitespace-nowrap">0 9 * * 1-5</span> is 9:00,
            Monday to Friday
          </>
        }
      >
        {(control) => (
          <input
            {...control}
            className="field font-mono"
            spellCheck={false}
            value={fields.cron}
            onChange={(event) => change({ cron: event.target.value })}
          />
        )}
      </FormField>
      <FormField
        label="Time zone"
        problem={problems('timezone')}
        hint="Name in the IANA database, such as Europe/Berlin"
      >
        {(control) => (
          <>
            <input
              {...control}
              className="field"
              spellCheck={false}
              list={zones}
              value={fields.timezone}
              onChange={(event) => change({ timezone: event.target.value })}
            />
            <datalist id={zones}>
              {['UTC', ...Intl.supportedValuesOf('timeZone')].map((zone) => (
                <option key={zone} value={zone} />
              ))}
            </datalist>
          </>
        )}
      </FormField>
    </div>
  );
}

const SESSIONS: Readonly<Record<Schedule['session'], string>> = {
  new: 'a new one for each',
  same: 'the same for all',
};
const OVERLAPS: Readonly<Record<Schedule['overlap'], string>> = {
  skip: 'leave it out',
  queue: 'let it wait',
  replace: 'cancel that run',
};
const CATCHUPS: Readonly<Record<Schedule['catchup'], string>> = {
  none: 'forget them',
  last: 'fire the last one late',
};

const How = ({ fields, change, problems }: PartProps): ReactNode => (
  <div className="grid gap-3 sm:grid-cols-2">
    <Choice
      label="Session of the fires"
      problem={problems('session')}
      choices={SESSIONS}
      value={fields.session}
      change={(session) => change({ session })}
    />
    <Choice
      label="Due while the last run is active"
      problem={problems('overlap')}
      choices={OVERLAPS}
      value={fields.overlap}
      change={(overlap) => change({ overlap })}
    />
    <Choice
      label="Due while no worker ran"
      problem={problems('catchup')}
      choices={CATCHUPS}
      value={fields.catchup}
      change={(catchup) => change({ catchup })}
    />
    <FormField label="Jitter in milliseconds" problem={problems('jitterMs')} hint="Longest random delay of each fire">
      {(control) => (
        <input
          {...control}
          type="number"
          className="field"
          value={fields.jitterMs}
          onChange={(event) => change({ jitterMs: Number(event.target.value) })}
        />
      )}
    </FormField>
  </div>
);

type ChoiceProps<Name extends string> = Readonly<{
  label: string;
  problem: string | undefined;
  choices: Readonly<Record<Name, string>>;
  value: Name;
  change: (name: Name) => void;
}>;

const Choice = <Name extends string>({ label, problem, choices, value, change }: ChoiceProps<Name>): ReactNode => (
  <FormField label={label} problem={problem}>
    {(control) => (
      <select {...control} className="field" value={value} onChange={(event) => change(event.target.value as Name)}>
        {(Object.keys(choices) as Name[]).map((name) => (
          <option key={name} value={name}>
            {choices[name]}
          </option>
        ))}
      </select>
    )}
  </FormField>
);
