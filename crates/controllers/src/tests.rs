//! Scenarios on the real server and the real store: something is done as a user, and the end of it is waited for.

mod access;
mod collecting;
mod definitions;
mod fixture;
mod namespaces;
mod running;
mod storage;
