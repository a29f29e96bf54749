# One configuration for several environments. Each has a file of values, a state of its own, and best an account of its own:
#
#   terraform workspace select -or-create dev && terraform apply -var-file=dev.tfvars
#   terraform workspace select -or-create prod && terraform apply -var-file=prod.tfvars
#
# Names contain the environment, so that two of them may share an account. Nothing else differs but what the files say.

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.19.0, < 7.0.0"
    }
  }
}

provider "aws" {
  region = var.region

  # Refuse to apply one environment to the account of another.
  allowed_account_ids = [var.account_id]

  default_tags {
    tags = { service = "compactor", environment = var.environment }
  }
}

module "compactor" {
  source = "../../"

  name          = "compactor-${var.environment}"
  database      = { name = "school_${var.environment}" }
  force_destroy = var.environment == "dev"
  serverless    = { maximum_cpu = var.maximum_cpu, maximum_memory = var.maximum_memory }
  callers       = var.operator_role_arns == null ? {} : { trusted = { arns = var.operator_role_arns } }
  notifications = { emails = var.emails }
  alarms        = var.alarms ? {} : null

  log_retention_days = var.log_retention_days
}

output "compactor_yaml" {
  description = "The first part of this environment's compactor.yaml; add `tables:`."
  value       = module.compactor.compactor_yaml
}
