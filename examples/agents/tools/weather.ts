import { defineTool } from '@baton-run/server/tools';
import { z } from 'zod';

/** Fixed reports. A real tool would fetch them, with `context.signal`. */
const REPORTS: Readonly<Record<string, Readonly<{ celsius: number; sky: string }>>> = {
  Berlin: { celsius: 3, sky: 'overcast' },
  Lisbon: { celsius: 17, sky: 'clear' },
};

export default defineTool({
  name: 'get_weather',
  description: 'The weather of a city right now.',
  inputSchema: z.object({ city: z.string(), unit: z.enum(['celsius', 'fahrenheit']).default('celsius') }),
  readOnly: true,
  timeoutMs: 10_000,
  execute: ({ city, unit }) => {
    const report = REPORTS[city];
    if (report === undefined) throw new Error(`There is no report for ${city}.`);
    const degrees = unit === 'celsius' ? report.celsius : (report.celsius * 9) / 5 + 32;
    return { city, degrees, unit, sky: report.sky };
  },
});
