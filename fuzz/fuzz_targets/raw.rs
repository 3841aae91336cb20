#![cfg_attr(fuzzing, no_main)]

fuzz::fuzz!("raw");
