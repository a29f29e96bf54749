environment        = "dev"
account_id         = "111111111111"
region             = "eu-west-1"
maximum_cpu        = "16 vCPU"
maximum_memory     = "64 GB"
emails             = ["data-dev@example.com"]
alarms             = false
log_retention_days = 14
