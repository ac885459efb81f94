import { readFileSync, readdirSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

// What replaces modules needs a page of its own, and so a run of its own. All others share one in
// each process (`--no-isolate`, which projects cannot say): making pages was most of their time.
const tests = readdirSync(new URL('src', import.meta.url), { recursive: true })
  .filter(name => name.endsWith('.test.ts'))
  .map(name => `src/${name}`);
const replaces = name => readFileSync(new URL(name, import.meta.url), 'utf8').includes('vi.mock(');

export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: { name: 'alone', include: tests.filter(replaces) }
      },
      {
        extends: true,
        test: {
          name: 'together',
          include: tests.filter(name => !replaces(name)),
          unstubGlobals: true
        }
      }
    ]
  }
});
