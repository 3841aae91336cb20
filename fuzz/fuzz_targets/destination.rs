#![cfg_attr(fuzzing, no_main)]

hangar_fuzz::fuzz!("destination");
