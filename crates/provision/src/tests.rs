//! The engine on the real server and the real store, over a cloud that is in memory and fails as told.

mod adopting;
mod cloud;
mod crashes;
mod driver;
mod faults;
mod fixture;
mod lives;
mod places;
mod referring;
mod telling;
