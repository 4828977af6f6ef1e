// What several pages say of brokers.

// Names that have slaves alone: nothing can be stored there.
export function masterless(brokers) {
  const led = new Set(brokers.filter((one) => one.id === 0).map((one) => one.name));
  return [...new Set(brokers.map((one) => one.name))].filter((name) => !led.has(name));
}
