//! Scenarios on the real server and the real store: something is done as a user, and the end of it is waited for.

mod authors;
mod contract;
mod contract_hooks;
mod credentials;
mod fixture;
mod hooks;
mod idle;
mod lifecycle;
mod operations;
mod types;
