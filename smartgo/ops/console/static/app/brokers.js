// Facts about brokers that several pages show.

// Return the names that have only slaves: they cannot store messages.
export function masterless(brokers) {
  const led = new Set(brokers.filter((one) => one.id === 0).map((one) => one.name));
  return [...new Set(brokers.map((one) => one.name))].filter((name) => !led.has(name));
}
