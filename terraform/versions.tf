# Terraform 1.9: the validation of a variable may refer to other variables. Provider 6.19: EMR Serverless has monitoring_configuration.
# The user of the module configures the provider.
terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.19.0, < 7.0.0"
    }
  }
}
