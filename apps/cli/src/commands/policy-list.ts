import type { PolicyKind, PolicyListing } from '@braess/control';
import { Command } from 'commander';
import { refuse } from '../arguments.js';
import { textTable } from '../text-output.js';

export function policyListCommand(): Command {
  return new Command('list')
    .description('built-in policies with what they do and the parameters they take')
    .argument('[KIND]', 'only this kind, such as router')
    .option('--json', 'print one JSON array, parameters as JSON Schema, and nothing else')
    .action(async (kind: string | undefined, { json }: { json?: boolean }, command: Command) => {
      const { policyKinds } = await import('@braess/control');
      if (kind !== undefined && !policyKinds.includes(kind as PolicyKind))
        refuse(command, `KIND: there is no policy kind '${kind}'; it must be one of ${policyKinds.join(', ')}`);
      const listings = (await builtInListings()).filter((each) => kind === undefined || each.kind === kind);
      process.stdout.write(`${json ? JSON.stringify(listings) : describe(listings, policyKinds)}\n`);
    });
}

async function builtInListings(): Promise<PolicyListing[]> {
  const [{ listPolicies }, { builtInEvictionPolicies }] = await Promise.all([import('@braess/control'), import('@braess/kvbm')]);
  const evictions = builtInEvictionPolicies.map(({ name, description, parameters: defaults }): PolicyListing => {
    const numbers = Object.entries(defaults).map(([key, value]) => [key, { type: 'number', default: value }]);
    const parameters = { type: 'object', properties: Object.fromEntries(numbers), additionalProperties: false };
    return { kind: 'eviction', name, description, parameters };
  });
  return [...listPolicies(), ...evictions];
}

function describe(listings: readonly PolicyListing[], kinds: readonly PolicyKind[]): string {
  const table = textTable(
    ['kind', 'name', 'parameters', 'what it does'],
    listings.map(({ kind, name, description, parameters }) => [
      kind,
      name,
      wrapped(parametersText(parameters), 36),
      wrapped(description, 56),
    ]),
    ['left', 'left', 'left', 'left'],
  );
  return `${table}\nYour own of any kind (${kinds.join(', ')}): braess policy new KIND NAME`;
}

/** `omega = 1, tau = 0`; parameters without a default must be given. */
function parametersText(schema: unknown): string {
  const { properties = {}, required = [] } = schema as { properties?: Record<string, { default?: unknown }>; required?: string[] };
  const texts = Object.entries(properties).map(([name, { default: value }]) => {
    if (value !== undefined) return `${name} = ${typeof value === 'string' ? value : JSON.stringify(value)}`;
    return required.includes(name) ? `${name} (required)` : name;
  });
  return texts.join(', ');
}

/** Lines of at most so many characters where words allow it, so that the table fits a terminal. */
function wrapped(text: string, width: number): string {
  return text.replaceAll(new RegExp(`(.{1,${width}})(?: |$)`, 'g'), '$1\n').trimEnd();
}
