"""Pure decisions about Jobs, flows, gangs, seats and HyperNodes: state tables, policies and plans."""
