from tests.attach.stand_in_vllm import Scheduler as Scheduler
