#![cfg_attr(fuzzing, no_main)]

fuzz::fuzz!("server_side_apply");
