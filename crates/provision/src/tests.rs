//! The engine on the real server and the real store, over a cloud that is in memory and fails as told.

mod adopting;
mod cloud;
mod crashes;
mod driver;
mod exporting;
mod faults;
mod fixture;
mod lives;
mod places;
mod referring;
mod remote;
mod telling;
