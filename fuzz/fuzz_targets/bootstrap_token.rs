#![cfg_attr(fuzzing, no_main)]

fuzz::fuzz!("bootstrap_token");
